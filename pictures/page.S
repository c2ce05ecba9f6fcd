// The files of pictures/page/ as read-only data of the program, and the table of them that page.h
// declares: name, first byte, size. The scripts stand in the order in which a page runs them.
#if __SIZEOF_POINTER__ == 8
#define WORD .quad
#else
#define WORD .long
#endif
    .macro asset name
    .section .rodata
1:  .incbin "pictures/page/\name"
2:  .byte 0
3:  .asciz "\name"
    .section .data.rel.ro, "aw", %progbits
    WORD 3b, 1b, 2b - 1b
    .endm

    .global page_asset_table
    .global page_asset_count
    .section .data.rel.ro, "aw", %progbits
    .balign 8
page_asset_table:
    asset page.html
    asset page.css
    asset data.js
    asset values.js
    asset colors.js
    asset draw.js
    asset state.js
    asset tokens.js
    asset diff.js
    asset sampler.js
    asset lens.js
    asset heads.js
    asset head.js
    asset layer.js
    asset logit.js
    asset matrix.js
    asset tensor.js
    asset weights.js
    asset start.js
page_asset_table_end:
    .section .rodata
    .balign 8
page_asset_count:
    WORD (page_asset_table_end - page_asset_table) / (3 * __SIZEOF_POINTER__)
    .section .note.GNU-stack, "", %progbits
