/* The files of a page, in the program (trine_report.c). The Makefile gives DYGRAPHS_... where dygraphs is found. */

        .macro file name, path
        .globl \name, \name\()_end
\name:
        .incbin "\path"
\name\()_end:
        .byte 0
        .endm

        .macro nothing name
        .globl \name, \name\()_end
\name:
\name\()_end:
        .byte 0
        .endm

        .section .rodata
        file report_script, PAGE_JS
        file report_style, PAGE_CSS
#ifdef DYGRAPHS_JS
        file report_curves, DYGRAPHS_JS
        file report_curves_style, DYGRAPHS_CSS
        file report_curves_licence, DYGRAPHS_LICENCE
#else
        nothing report_curves
        nothing report_curves_style
        nothing report_curves_licence
#endif
        .section .note.GNU-stack, "", %progbits
