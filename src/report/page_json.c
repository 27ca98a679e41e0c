#include "report/page_json.h"

#include <math.h>
#include <string.h>

#include "base/c_locale.h"

int page_character(const char *at) {
    const unsigned char *text = (const unsigned char *)at;
    int more = *text < 0x80                    ? 0
               : *text >= 0xc2 && *text < 0xe0 ? 1
               : *text >= 0xe0 && *text < 0xf0 ? 2
               : *text >= 0xf0 && *text < 0xf5 ? 3
                                               : -1;
    for (int n = 1; n <= more; n++)
        if ((text[n] & 0xc0) != 0x80) return 0;
    if ((*text == 0xe0 && text[1] < 0xa0) || (*text == 0xed && text[1] >= 0xa0) ||
        (*text == 0xf0 && text[1] < 0x90) || (*text == 0xf4 && text[1] >= 0x90))
        return 0;
    return more + 1;
}

void page_text(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int bytes = page_character((const char *)at);
        if (!bytes)
            fputs("\xef\xbf\xbd", out);
        else if (*at < ' ' || *at == '<' || *at == '&' || *at == 0x7f)
            fprintf(out, "\\u%04x", *at);
        else if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else
            fwrite(at, 1, (size_t)bytes, out);
        at += bytes ? bytes : 1;
    }
    fputc('"', out);
}

void page_texts(FILE *out, const char *const *texts, int count) {
    fputc('[', out);
    for (int n = 0; n < count; n++) {
        if (n) fputc(',', out);
        page_text(out, texts[n]);
    }
    fputc(']', out);
}

void page_number(FILE *out, double x) {
    if (isfinite(x))
        c_fprintf(out, "%.6g", x);
    else
        fputs("null", out);
}

void page_fixed(FILE *out, double x, int digits) {
    char text[64];
    if (!isfinite(x) || fabs(x) > 1e15) {
        page_number(out, x);
        return;
    }
    c_snprintf(text, sizeof text, "%.*f", digits, x);
    if (strchr(text, '.')) {
        size_t end = strlen(text);
        while (text[end - 1] == '0') end--;
        if (text[end - 1] == '.') end--;
        text[end] = '\0';
    }
    fputs(text, out);
}
