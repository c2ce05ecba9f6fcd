// The page that `view` writes: template, style and scripts, as read-only data of the program.
//
// A page is one HTML file that works from file:// without a network. pictures/page/page.html is a
// template with marks, each alone on its line, which the writer replaces:
//
//   <!--limpid:css-->     <style> page.css </style>
//   <!--limpid:core-->    <script type="application/json" id="core"> JSON </script>
//   <!--limpid:js-->      each script in a <script> of its own, in the order of page_assets
//   <!--limpid:blocks-->  <script type="text/plain" id="b-NAME" data-coding="plain|deflate"
//                         data-planes="1|2|4|8"> base64 of little-endian bytes </script>
//
// The JSON has what the first paint needs; blocks come behind the scripts, so that they can be
// large, and each is decoded when it is first looked at. data-coding=deflate: raw deflate (RFC
// 1951). data-planes=k: before that, the first bytes of all k-byte numbers stood first, then all
// second ones: floats compress better so.
//
// A section whose data is absent is left out of the page. A stage of `stages` is coded as
//
//   f32   rows x width floats, exact
//   sum   no bytes: the float32 sum of two other stages, exact too
//   i8    per row its largest |x| as a float, then rows x width int8 q, of all rows:
//         x = sign(q) largest (q / 127)^2, good enough for a picture
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct PageAsset {
    const char *name; // "page.html", "page.css", then "data.js" and so on
    const char *data; // UTF-8, not terminated
    size_t size;
} PageAsset;

// pictures/page.S: the table, with the files themselves by .incbin.
extern const PageAsset page_asset_table[];
extern const uint64_t page_asset_count;

// The template, the style, then the scripts in the order in which a page has them.
static inline const PageAsset *page_assets(int *count) {
    *count = (int)page_asset_count;
    return page_asset_table;
}
