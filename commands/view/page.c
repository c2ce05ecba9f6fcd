// Assembles the page: the template up to each of its marks, and what stands there.
//
//   block    bytes -> planes -> raw deflate -> base64 -> <script id="b-NAME" ..>
//   file     | template | <style> | template | core | template | scripts | template | blocks | .. |
#include "commands/view/page.h"

#include "commands/shared/interrupt.h"
#include "pictures/page.h"
#include "pictures/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- blocks ----

// 3 bytes as 4 characters (RFC 4648). False: interrupted.
static bool put_base64(Buffer *out, const uint8_t *bytes, size_t size) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size && !interrupt_asked(); i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (left > 1) group |= (uint32_t)bytes[i + 1] << 8;
        if (left > 2) group |= bytes[i + 2];
        char text[4] = {DIGITS[group >> 18], DIGITS[group >> 12 & 63], '=', '='};
        if (left > 1) text[2] = DIGITS[group >> 6 & 63];
        if (left > 2) text[3] = DIGITS[group & 63];
        buffer_put(out, text, sizeof text);
    }
    return !interrupt_asked();
}

// The first bytes of all numbers, then all second ones, ...: exponents are alike and compress well,
// between mantissas they would be lost.
static void split_planes(uint8_t *out, const uint8_t *bytes, size_t size, size_t number) {
    size_t count = size / number;
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < number; b++)
            out[b * count + i] = bytes[i * number + b];
}

static bool put_block(Buffer *out, const char *name, const char *coding, int planes,
                      const uint8_t *bytes, size_t size) {
    buffer_print(out,
                 "<script type=\"text/plain\" id=\"b-%s\" data-coding=\"%s\" "
                 "data-planes=\"%d\">",
                 name, coding, planes);
    bool whole = put_base64(out, bytes, size);
    buffer_print(out, "</script>\n");
    return whole;
}

static bool too_large(Error *error) {
    return error_set(error, ERROR_USAGE,
                     "the page would be larger than %.0f MB: choose fewer layers with --layers, or "
                     "fewer tokens",
                     (double)PAGE_BYTES / 1e6);
}

// Compression stops as soon as the block is known not to fit.
bool page_block(Page *p, const char *name, const void *bytes, size_t size, int number,
                Error *error) {
    Buffer packed = {0};
    size_t room = (PAGE_BYTES - p->blocks.size) / 4 * 3; // base64
    uint8_t *planes = malloc(size ? size : 1);
    if (planes) split_planes(planes, bytes, size, (size_t)number);
    bool smaller =
        planes && size &&
        deflate_bytes(&packed, planes, size, size <= room ? size - 1 : room, interrupt_flag());
    bool fits = smaller || size <= room, whole = !interrupt_asked();
    if (smaller)
        whole = put_block(&p->blocks, name, "deflate", number, packed.bytes, packed.size);
    else if (fits)
        whole = put_block(&p->blocks, name, "plain", 1, bytes, size);
    bool good = planes && !packed.failed && !p->blocks.failed;
    free(planes);
    buffer_free(&packed);
    if (!whole) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    if (!good) return error_set(error, ERROR_MEMORY, "no memory for the block %s of a page", name);
    return (fits && p->blocks.size <= PAGE_BYTES) || too_large(error);
}

void page_free(Page *p) {
    buffer_free(&p->blocks);
}

// ---- the file ----

// What stands at a mark of the template.
static void put_style(Buffer *out, const PageAsset *assets) {
    buffer_print(out, "<style>\n");
    buffer_put(out, assets[1].data, assets[1].size);
    buffer_print(out, "</style>\n");
}

static void put_scripts(Buffer *out, const PageAsset *assets, int count) {
    for (int i = 2; i < count; i++) {
        buffer_print(out, "<script>\n");
        buffer_put(out, assets[i].data, assets[i].size);
        buffer_print(out, "</script>\n");
    }
}

static void put_core(Buffer *out, const Buffer *core) {
    buffer_print(out, "<script type=\"application/json\" id=\"core\">");
    buffer_put(out, core->bytes, core->size);
    buffer_print(out, "</script>\n");
}

// The line at `line` is the mark "<!--limpid:NAME-->".
static bool is_mark(const char *line, size_t length, const char *name) {
    char mark[40];
    size_t wanted = (size_t)snprintf(mark, sizeof mark, "<!--limpid:%s-->", name);
    return length == wanted && !memcmp(line, mark, wanted);
}

// The page without its blocks; *at: where they stand.
static void put_page(Buffer *out, size_t *at, const Buffer *core) {
    int count = 0;
    const PageAsset *assets = page_assets(&count);
    const char *line = assets->data, *end = line + assets->size;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *next = newline ? newline + 1 : end;
        size_t length = (size_t)((newline ? newline : end) - line);
        if (is_mark(line, length, "css"))
            put_style(out, assets);
        else if (is_mark(line, length, "core"))
            put_core(out, core);
        else if (is_mark(line, length, "js"))
            put_scripts(out, assets, count);
        else if (is_mark(line, length, "blocks"))
            *at = out->size;
        else
            buffer_put(out, line, (size_t)(next - line));
        line = next;
    }
}

bool page_write(const Page *p, const Buffer *core, const OutputFile *place, uint64_t *bytes,
                Error *error) {
    Buffer out = {0};
    size_t at = 0;
    put_page(&out, &at, core);
    if (out.failed) {
        buffer_free(&out);
        return error_set(error, ERROR_MEMORY, "no memory for a page");
    }
    size_t blocks = p->blocks.size;
    *bytes = out.size + blocks;
    FileWriter *file = file_writer_open(place, *bytes, error);
    bool good = file && file_writer_put(file, 0, out.bytes, at, error) &&
                file_writer_put(file, at, p->blocks.bytes, blocks, error) &&
                file_writer_put(file, at + blocks, out.bytes + at, out.size - at, error) &&
                file_writer_finish(file, error);
    file_writer_close(file);
    buffer_free(&out);
    return good;
}
