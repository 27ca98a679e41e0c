#include "tokenizer/newer.h"

#include <string.h>

#include "tokenizer/text.h"

/* Characters that Unicode 15.0, 15.1 and 16.0 added: the first one, the last one, the version. From DerivedAge. */
static const struct {
    uint32_t first, last;
    int version;
} ages[] = {
    {0x897, 0x897, 160},     {0xCF3, 0xCF3, 150},     {0xECE, 0xECE, 150},
    {0x1B4E, 0x1B4F, 160},   {0x1B7F, 0x1B7F, 160},   {0x1C89, 0x1C8A, 160},
    {0x2427, 0x2429, 160},   {0x2FFC, 0x2FFF, 151},   {0x31E4, 0x31E5, 160},
    {0x31EF, 0x31EF, 151},   {0xA7CB, 0xA7CD, 160},   {0xA7DA, 0xA7DC, 160},
    {0x105C0, 0x105F3, 160}, {0x10D40, 0x10D65, 160}, {0x10D69, 0x10D85, 160},
    {0x10D8E, 0x10D8F, 160}, {0x10EC2, 0x10EC4, 160}, {0x10EFC, 0x10EFC, 160},
    {0x10EFD, 0x10EFF, 150}, {0x1123F, 0x11241, 150}, {0x11380, 0x11389, 160},
    {0x1138B, 0x1138B, 160}, {0x1138E, 0x1138E, 160}, {0x11390, 0x113B5, 160},
    {0x113B7, 0x113C0, 160}, {0x113C2, 0x113C2, 160}, {0x113C5, 0x113C5, 160},
    {0x113C7, 0x113CA, 160}, {0x113CC, 0x113D5, 160}, {0x113D7, 0x113D8, 160},
    {0x113E1, 0x113E2, 160}, {0x116D0, 0x116E3, 160}, {0x11B00, 0x11B09, 150},
    {0x11BC0, 0x11BE1, 160}, {0x11BF0, 0x11BF9, 160}, {0x11F00, 0x11F10, 150},
    {0x11F12, 0x11F3A, 150}, {0x11F3E, 0x11F59, 150}, {0x11F5A, 0x11F5A, 160},
    {0x1342F, 0x1342F, 150}, {0x13439, 0x13455, 150}, {0x13460, 0x143FA, 160},
    {0x16100, 0x16139, 160}, {0x16D40, 0x16D79, 160}, {0x18CFF, 0x18CFF, 160},
    {0x1B132, 0x1B132, 150}, {0x1B155, 0x1B155, 150}, {0x1CC00, 0x1CCF9, 160},
    {0x1CD00, 0x1CEB3, 160}, {0x1D2C0, 0x1D2D3, 150}, {0x1DF25, 0x1DF2A, 150},
    {0x1E030, 0x1E06D, 150}, {0x1E08F, 0x1E08F, 150}, {0x1E4D0, 0x1E4F9, 150},
    {0x1E5D0, 0x1E5FA, 160}, {0x1E5FF, 0x1E5FF, 160}, {0x1F6DC, 0x1F6DC, 150},
    {0x1F774, 0x1F776, 150}, {0x1F77B, 0x1F77F, 150}, {0x1F7D9, 0x1F7D9, 150},
    {0x1F8B2, 0x1F8BB, 160}, {0x1F8C0, 0x1F8C1, 160}, {0x1FA75, 0x1FA77, 150},
    {0x1FA87, 0x1FA88, 150}, {0x1FA89, 0x1FA89, 160}, {0x1FA8F, 0x1FA8F, 160},
    {0x1FAAD, 0x1FAAF, 150}, {0x1FABB, 0x1FABD, 150}, {0x1FABE, 0x1FABE, 160},
    {0x1FABF, 0x1FABF, 150}, {0x1FAC6, 0x1FAC6, 160}, {0x1FACE, 0x1FACF, 150},
    {0x1FADA, 0x1FADB, 150}, {0x1FADC, 0x1FADC, 160}, {0x1FADF, 0x1FADF, 160},
    {0x1FAE8, 0x1FAE8, 150}, {0x1FAE9, 0x1FAE9, 160}, {0x1FAF7, 0x1FAF8, 150},
    {0x1FBCB, 0x1FBEF, 160}, {0x2B739, 0x2B739, 150}, {0x2EBF0, 0x2EE5D, 151},
    {0x31350, 0x323AF, 150},
};

#define AGES (sizeof ages / sizeof *ages)

void newer_table_fill(newer_table *t, int version) {
    *t = (newer_table){.version = version};
    for (size_t i = 0; i < AGES; i++) {
        if (ages[i].version <= version) continue;
        t->any = true;
        for (uint32_t c = ages[i].first; c <= ages[i].last; c++) {
            char form[4];
            text_put(form, c);
            t->leads[(unsigned char)form[0]] = true;
        }
        for (uint32_t block = ages[i].first >> 6; block <= ages[i].last >> 6; block++)
            t->blocks[block >> 3] |= (unsigned char)(1u << (block & 7));
    }
}

static bool is_newer(const newer_table *t, uint32_t c) {
    for (size_t i = 0; i < AGES && ages[i].first <= c; i++)
        if (c <= ages[i].last) return ages[i].version > t->version;
    return false;
}

static void keep(newer_chars *to, uint32_t c) {
    for (int i = 0; i < to->shown; i++)
        if (to->first[i] == c) return;
    if (to->shown < NEWER_SHOWN)
        to->first[to->shown++] = c;
    else
        to->more = true;
}

void newer_count(const newer_table *t, const char *text, size_t bytes, newer_chars *to) {
    const char *at = text, *end = text + bytes;
    while (t->any && at < end) {
        if (!t->leads[(unsigned char)*at]) { /* and then all bytes of the character are skipped */
            at += text_ascii(at, (size_t)(end - at));
            while (at < end && (*at & 0x80) && !t->leads[(unsigned char)*at]) at++;
            continue;
        }
        uint32_t c = text_char(at, &at), block = c >> 6;
        if (!(t->blocks[block >> 3] >> (block & 7) & 1) || !is_newer(t, c)) continue;
        to->count++;
        keep(to, c);
    }
}

void newer_chars_add(newer_chars *to, const newer_chars *from) {
    to->count += from->count;
    to->more |= from->more;
    for (int i = 0; i < from->shown; i++) keep(to, from->first[i]);
}
