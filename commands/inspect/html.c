// inspect --html: the facts, the tensors and the chat template as one page that works from a file,
// in a dark and a light window, and needs no network.
//
// Every text of the model file goes through put_escaped, so none becomes markup or script. The page
// is well-formed XML as well: its script has no < and no &.
#include "commands/inspect/inspect.h"
#include "commands/shared/output.h"
#include "weights/quant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Nothing may be fetched, whatever a browser finds in the page.
static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
    "<style>\n"
    ":root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }\n"
    "body { max-width: 76rem; margin: 1.5rem auto; padding: 0 1rem; color: CanvasText;\n"
    "  background: Canvas; }\n"
    "h1 { font-size: 1.3rem; overflow-wrap: anywhere; }\n"
    "h2 { font-size: 1.05rem; margin-top: 2rem; }\n"
    ".wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; }\n"
    "th, td { padding: 0.15rem 0.7rem 0.15rem 0; text-align: left; vertical-align: top;\n"
    "  border-bottom: 1px solid color-mix(in srgb, CanvasText 15%, Canvas); }\n"
    "td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }\n"
    "td.long { white-space: pre-wrap; overflow-wrap: anywhere; }\n"
    "td.share { background: linear-gradient(to left, color-mix(in srgb, #2a8 45%, Canvas)\n"
    "  var(--share), transparent 0); }\n"
    "th button { all: unset; cursor: pointer; font-weight: bold; }\n"
    "th button:focus-visible { outline: 2px solid Highlight; }\n"
    "th[aria-sort=ascending] button::after { content: ' \\2191'; }\n"
    "th[aria-sort=descending] button::after { content: ' \\2193'; }\n"
    "pre { overflow-x: auto; padding: 0.6rem; border: 1px solid GrayText; }\n"
    "</style>\n<title>";

// The number of a cell is in data-v; cells without one are compared as text. The first click on a
// column of numbers shows the largest first.
static const char SCRIPT[] =
    "<script>\n"
    "document.querySelectorAll('#tensors th button').forEach(function (button, column) {\n"
    "  button.addEventListener('click', function () {\n"
    "    var head = button.parentNode, body = document.querySelector('#tensors tbody');\n"
    "    var rows = Array.from(body.rows), number = rows.length ?\n"
    "      rows[0].cells[column].dataset.v !== undefined : false;\n"
    "    var before = head.getAttribute('aria-sort');\n"
    "    var up = before ? before === 'descending' : !number;\n"
    "    document.querySelectorAll('#tensors th').forEach(function (other) {\n"
    "      other.removeAttribute('aria-sort');\n"
    "    });\n"
    "    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');\n"
    "    rows.sort(function (a, b) {\n"
    "      var x = a.cells[column], y = b.cells[column];\n"
    "      var order = number ? x.dataset.v - y.dataset.v :\n"
    "        x.textContent.localeCompare(y.textContent, 'en', { numeric: true });\n"
    "      return up ? order : -order;\n"
    "    });\n"
    "    rows.forEach(function (row) { body.append(row); });\n"
    "  });\n"
    "});\n"
    "</script>\n";

static void put(Buffer *out, const char *markup) {
    buffer_put(out, markup, strlen(markup));
}

// Text of the file: without what could change the direction of text around it, then as markup.
static void put_escaped(Buffer *out, const char *text, size_t length) {
    char *filtered = malloc(3 * length + 1);
    if (!filtered) {
        out->failed = true;
        return;
    }
    buffer_markup(out, filtered, terminal_filter(filtered, text, length));
    free(filtered);
}

static void put_facts(Buffer *out, const Facts *f) {
    put(out, "<h2>Configuration</h2>\n<table>\n<tbody>\n");
    for (int i = 0; i < f->count; i++) {
        buffer_print(out, "<tr><th scope=\"row\">%s</th><td class=\"long\">", f->rows[i].name);
        put_escaped(out, fact_text(f, i), f->rows[i].length);
        put(out, "</td></tr>\n");
    }
    put(out, "</tbody>\n</table>\n");
}

// ---- tensors ----

static void put_header(Buffer *out) {
    static const struct {
        const char *name;
        bool number;
    } COLUMNS[] = {
        {"#", true},          {"tensor", false}, {"type", false},         {"shape", false},
        {"parameters", true}, {"bytes", true},   {"share of bytes", true}};
    put(out, "<div class=\"wide\">\n<table id=\"tensors\">\n<thead>\n<tr>");
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++)
        buffer_print(out, "<th scope=\"col\"%s><button type=\"button\">%s</button></th>",
                     COLUMNS[i].number ? " class=\"n\"" : "", COLUMNS[i].name);
    put(out, "</tr>\n</thead>\n<tbody>\n");
}

static void put_number(Buffer *out, uint64_t value) {
    buffer_print(out, "<td class=\"n\" data-v=\"%" PRIu64 "\">%" PRIu64 "</td>", value, value);
}

static void put_tensor(Buffer *out, const TensorPlan *t, size_t i, uint64_t all_bytes) {
    double share = all_bytes ? 100 * (double)t->bytes / (double)all_bytes : 0;
    put(out, "<tr>");
    put_number(out, i);
    put(out, "<td>");
    put_escaped(out, t->name, strlen(t->name));
    buffer_print(out, "</td><td>%s</td><td>", dtype_info(t->dtype)->name);
    for (uint32_t d = 0; d < t->n_dims; d++)
        buffer_print(out, "%s%" PRIu64, d ? " \u00d7 " : "", t->shape[d]);
    put(out, "</td>");
    put_number(out, plan_elements(t));
    put_number(out, t->bytes);
    buffer_print(out,
                 "<td class=\"n share\" style=\"--share: %.2f%%\" data-v=\"%" PRIu64
                 "\">%.2f %%</td></tr>\n",
                 share, t->bytes, share);
}

static void put_tensors(Buffer *out, const Session *s) {
    size_t count = 0;
    const TensorPlan *tensors = checkpoint_tensors(s->checkpoint, &count);
    uint64_t bytes = inspect_totals(s).bytes;
    put(out, "<h2>Tensors</h2>\n<p>");
    totals_text(out, s);
    put(out, "</p>\n");
    put_header(out);
    for (size_t i = 0; i < count && !out->failed; i++)
        put_tensor(out, &tensors[i], i, bytes);
    put(out, "</tbody>\n</table>\n</div>\n");
}

// ---- the page ----

static void put_template(Buffer *out, const Session *s) {
    TextSpan text = checkpoint_vocabulary(s->checkpoint)->chat_template;
    if (!text.length) return;
    put(out, "<h2>Chat template</h2>\n<pre>");
    put_escaped(out, text.text, text.length);
    put(out, "</pre>\n");
}

static void put_page(Buffer *out, const Session *s, const Facts *facts) {
    const char *path = checkpoint_path(s->checkpoint), *slash = strrchr(path, '/');
    const char *name = slash && slash[1] ? slash + 1 : path;
    put(out, HEAD);
    put_escaped(out, name, strlen(name));
    put(out, "</title>\n</head>\n<body>\n<h1>");
    put_escaped(out, name, strlen(name));
    put(out, "</h1>\n");
    put_facts(out, facts);
    put_tensors(out, s);
    put_template(out, s);
    put(out, SCRIPT);
    put(out, "</body>\n</html>\n");
}

bool inspect_write_html(const Session *s, const Facts *facts, const OutputFile *place,
                        Error *error) {
    Buffer page = {0};
    put_page(&page, s, facts);
    bool good = !page.failed || error_set(error, ERROR_MEMORY, "no memory for the page");
    good = good && file_write(place, page.bytes, page.size, error);
    buffer_free(&page);
    return good;
}
