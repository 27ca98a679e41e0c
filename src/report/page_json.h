/* JSON inside a script element of a page: no text in it can end the element. */
#ifndef TRINE_REPORT_PAGE_JSON_H
#define TRINE_REPORT_PAGE_JSON_H

#include <stdio.h>

/* Bytes of the UTF-8 character (RFC 3629) at the beginning of a text that ends with a zero; 0: it is none. Pure. */
int page_character(const char *text);

/* A string, in quotation marks; '<', '&' and control characters are escaped, bytes that are no UTF-8 replaced. */
void page_text(FILE *out, const char *text);
/* ["a","b"] */
void page_texts(FILE *out, const char *const *texts, int count);
/* A number with six digits; null where it is not finite. */
void page_number(FILE *out, double x);
/* The same with `digits` digits behind the point, without trailing zeros. */
void page_fixed(FILE *out, double x, int digits);

#endif
