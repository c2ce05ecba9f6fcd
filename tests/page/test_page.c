// The page of `view` in a browser: tests/page/check_page.py clicks through it in Chromium and
// compares what it shows with a trace of the same run; check_value.py asks it for one value;
// check_use.py is its readers' keyboards, fingers, languages and large models. Skipped where
// Chromium is absent.
#include "tests/support/program.h"

#include <unistd.h>

// Runs `check` on what the lines of shell before it made in the folder $DIR. Exit code 77:
// no Chromium. With sanitizers the lines before it are the test: the pages are those of other
// builds.
static void check_in_browser(const char *make, const char *check) {
    need_builtin();
    if (system("/usr/bin/python3 -c 'from collections import Counter; Counter().total()' 2>&1"))
        SKIP("no python3 of version 3.10 or later");
    char script[8000];
    snprintf(script, sizeof script,
             "DIR=%s.d; mkdir -p $DIR; trap 'rm -r $DIR' EXIT\n"
             "PROMPT='--prompt-ids 1,304,703,1379,352,266,284,299,268,501'\n"
             "CHECK='/usr/bin/python3 tests/page/check_page.py'\n"
             "VALUE='/usr/bin/python3 tests/page/check_value.py'\n"
             "CHANGE='/usr/bin/python3 tests/page/change_trace.py'\n%s\n%s\n",
             test_temporary("page"), make, TEST_SANITIZED ? "" : check);
    TestRun r = program_shell(script);
    bool absent = r.status == 77;
    if (!absent) CHECK(r.status == 0, "%s%s", r.out, r.err);
    test_run_free(&r);
    if (absent) SKIP("no Chromium on this machine");
}

Test(page, shows_the_numbers_of_the_trace) {
    check_in_browser("$RUN view $PROMPT -n 4 --out $DIR/page.html -q &&\n"
                     "$RUN trace $PROMPT -n 4 --attention --out $DIR/t.safetensors -q || exit",
                     "$CHECK $DIR/page.html $DIR/t.safetensors");
}

// From 25 tokens on most layers are pictures of 8 bits, and the page says "about".
Test(page, says_about_where_numbers_are_of_8_bits) {
    check_in_browser("LONG='--prompt-ids 1,304,703,1379,352,266,284,299,268,501,453,266,646,1990'\n"
                     "$RUN view $LONG -n 40 --layers 1,4-5 --out $DIR/page.html -q &&\n"
                     "$RUN trace $LONG -n 40 --attention --out $DIR/t.safetensors -q || exit",
                     "$CHECK $DIR/page.html $DIR/t.safetensors");
}

Test(page, of_a_trace_shows_its_tensors) {
    check_in_browser("$RUN trace $PROMPT -n 2 --attention --out $DIR/t.safetensors -q &&\n"
                     "$RUN view $DIR/t.safetensors --out $DIR/page.html -q || exit",
                     "$CHECK --trace $DIR/page.html $DIR/t.safetensors");
}

// A NaN is written over one number of the first trace.
Test(page, of_two_traces_opens_at_the_first_difference) {
    check_in_browser(
        "$RUN trace $PROMPT --attention --out $DIR/b.safetensors -q || exit\n"
        "$CHANGE $DIR/b.safetensors $DIR/a.safetensors"
        " 'put(\"model.layers.2.mlp.fc2\", 3 * 192 + 77, float(\"nan\"))' || exit\n"
        "$RUN view $DIR/a.safetensors $DIR/b.safetensors --out $DIR/page.html -q || exit",
        "$CHECK --diff $DIR/page.html $DIR/a.safetensors 2.ffn_out");
}

// ---- numbers that the page computes ----

// A layer with changed heads has them as they are; those of the others are sums of values.
Test(page, shows_the_heads_that_a_run_changes) {
    check_in_browser("$RUN view $PROMPT --ablate L2.H1 --layers 0 --out $DIR/page.html -q || exit",
                     "$VALUE $DIR/page.html '[2, 3].map(l => {\n"
                     "  const s = stageById.get(`${l}.att_heads`), values = stageValues(s.id);\n"
                     "  return [s.coding, values.some((x, i) => i % 192 >> 5 === 1 && x !== 0)];\n"
                     "})' '[[\"f32\",false],[\"heads\",true]]'");
}

Test(page, of_a_trace_with_changes_computes_no_heads) {
    check_in_browser("for CHANGE in '' '--ablate L2.H1'; do\n"
                     "  $RUN trace $PROMPT --attention $CHANGE --only v_proj --only attn_weights"
                     " --only layers.0.self_attn.heads --out $DIR/t.safetensors --force -q &&\n"
                     "  $RUN view $DIR/t.safetensors --out \"$DIR/page$CHANGE.html\" -q || exit\n"
                     "done",
                     "HAS='[0, 2].map(l => stageById.has(`${l}.att_heads`))'\n"
                     "$VALUE $DIR/page.html \"$HAS\" '[true,true]' &&\n"
                     "$VALUE \"$DIR/page--ablate L2.H1.html\" \"$HAS\" '[true,false]'");
}

// Of the page's means those that are not the ones of `attention --entropy --csv`.
static void check_means(const char *options) {
    char make[1000];
    snprintf(make, sizeof make,
             "$RUN view %s --out $DIR/page.html -q &&\n"
             "$RUN attention %s --entropy --csv -q > $DIR/text || exit",
             options, options);
    check_in_browser(
        make, "$VALUE $DIR/page.html 'TEXT.trim().split(`\\n`).slice(1).filter(line => {\n"
              "  const [l, h, entropy, share, , distance, first] = line.split(`,`).map(Number);\n"
              "  const wanted = { entropy, share, distance, first };\n"
              "  return !Object.entries(wanted).every(([name, x]) => {\n"
              "    const mean = headMean(l, h, name);\n"
              "    return isNaN(x) ? isNaN(mean) : Math.abs(mean - x) <= 1e-5 * Math.max(1, x);\n"
              "  });\n"
              "})' '[]' $DIR/text");
}

Test(page, means_of_heads_are_those_of_the_command_attention) {
    check_means("--prompt-ids 1,403,407,261");
    check_means("$PROMPT --pattern local:4"); // most rows do not see the first token
    check_means("--prompt-ids 1");
}

Test(page, a_mean_of_no_rows_is_a_dash) {
    check_in_browser("$RUN view --prompt-ids 1 --out $DIR/page.html -q || exit",
                     "$VALUE $DIR/page.html '(views.find(v => v.id === `head`).draw(),\n"
                     "  [...document.querySelectorAll(`#head td`)].map(e => e.textContent)"
                     ".slice(4, 12))' '[\"share of the maximum\",\"–\",\"–\",\"–\","
                     "\"on the first token\",\"100.0 %\",\"–\",\"–\"]'");
}

// Weights and queries and keys of 8 bits: the page hides the keys that the pattern hides, and shows
// no more digits than hold. In each layer: digits, keys that are hidden in one of both only, and
// whether 6 % or more of the scores are off by over one unit of the last digit.
static void check_scores(const char *stage) {
    char make[1000], check[4000];
    snprintf(
        make, sizeof make,
        "LONG='--prompt-ids 1,304,703,1379,352,266,284,299,268,501,453,266,646,1990,315,283,389,"
        "414,1990,315,360,262,592,421,1990,2,283,389,414,1990,320,360,262,409,815,352,318,1119,"
        "268,262,409,815,352,318,1119,1990,320,283,343,414,268,338 --pattern local:16'\n"
        "$RUN view $LONG --layers 1 --out $DIR/page.html -q &&\n"
        "$RUN attention $LONG --stage %s --csv -q > $DIR/text || exit",
        stage);
    snprintf(check, sizeof check,
             "$VALUE $DIR/page.html '(() => {\n"
             "  const rows = TEXT.trim().split(`\\n`).slice(1).map(line => line.split(`,`));\n"
             "  const truth = new Map(rows.map(r => [r.slice(0, 4).join(), Number(r[4])]));\n"
             "  return [1, 3].map(l => {\n"
             "    let wrong = 0, off = 0, count = 0;\n"
             "    const digits = views.find(v => v.id === `head`).scoreDigits(l);\n"
             "    for (let h = 0; h < core.heads; h++) {\n"
             "      const score = headScore(l, h, `%s` === `scaled`);\n"
             "      for (let i = 0; i < tokens; i++) for (let j = 0; j <= i; j++) {\n"
             "        const x = truth.get([l, h, i, j].join()), y = score(i, j);\n"
             "        wrong += (x === undefined) !== (y === -Infinity);\n"
             "        if (x === undefined || y === -Infinity) continue;\n"
             "        const unit = 10 ** (Math.floor(Math.log10(Math.abs(y))) - digits + 1);\n"
             "        off += Math.abs(Number(y.toPrecision(digits)) - x) > unit, count++;\n"
             "      }\n"
             "    }\n"
             "    return [digits, wrong, off / count >= 0.06];\n"
             "  });\n"
             "})()' '[[3,0,false],[1,0,false]]' $DIR/text",
             stage);
    check_in_browser(make, check);
}

Test(page, scores_hide_what_a_pattern_hides_and_have_the_digits_that_hold) {
    check_scores("raw");
    check_scores("scaled");
}

// Its metadata may lack head_dim, or have one that is not that of its queries.
Test(page, of_a_trace_has_scores_where_its_sizes_fit) {
    check_in_browser(
        "$RUN trace $PROMPT --attention --out $DIR/t.safetensors -q || exit\n"
        "for SIZE in 32 33 null; do\n"
        "  $CHANGE $DIR/t.safetensors $DIR/$SIZE"
        " \"metadata['config'] = metadata['config'].replace(':32,', ':$SIZE,')\" &&\n"
        "  $RUN view $DIR/$SIZE --out $DIR/$SIZE.html -q || exit\n"
        "done",
        "RAW='(views.find(v => v.id === `head`).draw(),\n"
        "  [core.headDim, !document.querySelector(`#head [data-value=raw]`).disabled])'\n"
        "$VALUE $DIR/32.html \"$RAW\" '[32,true]' &&\n"
        "$VALUE $DIR/33.html \"$RAW\" '[33,false]' &&\n"
        "$VALUE $DIR/null.html \"$RAW\" '[null,false]'");
}

// ---- two traces ----

// The page of A, a trace changed by the statement `before`, and B, which is A with `change`.
static void check_difference(const char *before, const char *change, const char *expression,
                             const char *wanted) {
    char make[2000], check[2000];
    snprintf(make, sizeof make,
             "$RUN trace $PROMPT --attention --out $DIR/t -q &&\n"
             "$CHANGE $DIR/t $DIR/a '%s' && $CHANGE $DIR/a $DIR/b '%s' &&\n"
             "$RUN view $DIR/a $DIR/b --out $DIR/page.html -q || exit",
             before, change);
    snprintf(check, sizeof check, "$VALUE $DIR/page.html '%s' '%s'", expression, wanted);
    check_in_browser(make, check);
}

#define FACTS "document.querySelector(`#diff .facts`).innerHTML.split(`<br>`)[1]"

Test(page, of_two_traces_says_the_same_bits_only_where_they_are) {
    check_difference("pass", "pass", FACTS,
                     "\"No stage is off by more than its tolerance. All bits are the same.\"");
    check_difference(
        "put(\"model.norm\", 0, 0.0)", "put(\"model.norm\", 0, -0.0)",
        "[" FACTS ", differenceOf(diffEntries().find(e => e.id === `final_norm`))]",
        "[\"No stage is off by more than its tolerance. The first that is not the same "
        "bit for bit is final_norm.\",\"equal values of other bits: 0 and −0, or another "
        "type\"]");
    check_difference("pass", "tensors[\"mine\"] = tensors.pop(\"model.norm\")", FACTS,
                     "\"No stage is off by more than its tolerance. 1 tensor: only in A. 1 tensor: "
                     "only in B.\"");
}

// An integer tensor is not compared, one of another shape is beyond any tolerance.
Test(page, of_two_traces_names_what_has_no_difference) {
    check_difference(
        "pass",
        "tensors[\"model.layers.1.mlp.fc1\"][0] = \"I32\";"
        " tensors[\"model.norm\"][1] = [5, 384]",
        "[" FACTS ", [...document.querySelectorAll(`#diff .choice button`)].map(b => "
        "b.textContent)]",
        "[\"<b>The first stage off by more than its tolerance is final_norm.</b> 1 tensor: another "
        "shape in B than in A. 1 tensor: not compared: not floating-point numbers of at most 32 "
        "bits.\",[\"beyond the tolerance: 1\",\"not known to be the same bits: 2\",\"all: 107\"]]");
}

// Clicks at the entries of logits and of attention weights: the view that comes into sight, and
// what is chosen there. The names of GPT-2 have their layer elsewhere, and in most traces the head
// lm_head gives the logits.
Test(page, of_two_traces_opens_logits_and_attention_where_they_are_shown) {
    check_difference(
        "tensors[\"transformer.h.4.attn.attn_weights\"] ="
        " tensors.pop(\"model.layers.4.self_attn.attn_weights\"); del tensors[\"logits\"]",
        "put(\"lm_head\", 3 * 2048 + 5, 99);"
        " put(\"transformer.h.4.attn.attn_weights\", 2 * 100 + 7 * 10 + 1, 0.9)",
        "[`lm_head`, `transformer.h.4.attn.attn_weights`].map(id => {\n"
        "  let seen;\n"
        "  Element.prototype.scrollIntoView = function () { seen = this.id; };\n"
        "  [...document.querySelectorAll(`#diff td button`)]"
        ".find(b => b.textContent.endsWith(id)).click();\n"
        "  return [seen, chosen.position, seen === `head` && [chosen.layer, chosen.head]];\n"
        "})",
        "[[\"sampler\",3,false],[\"head\",7,[4,2]]]");
}

Test(page, serves_keyboards_touch_right_to_left_text_and_large_matrices) {
    check_in_browser("$RUN view $PROMPT -n 4 --out $DIR/page.html -q || exit",
                     "/usr/bin/python3 tests/page/check_use.py $DIR/page.html");
}

// A button in a box that scrolls has the focus then.
Test(page, of_two_traces_keeps_the_arrows_behind_a_click_in_the_table) {
    check_difference("pass", "put(\"model.layers.2.mlp.fc2\", 3 * 192 + 77, 9)",
                     "(() => {\n"
                     "  const b = [...document.querySelectorAll(`#diff td button`)]"
                     ".find(b => !b.disabled);\n"
                     "  b.focus(), b.click();\n"
                     "  const was = chosen.position, key = was ? `ArrowLeft` : `ArrowRight`;\n"
                     "  b.dispatchEvent(new KeyboardEvent(`keydown`, {key, bubbles: true}));\n"
                     "  return Math.abs(chosen.position - was);\n"
                     "})()",
                     "1");
}
