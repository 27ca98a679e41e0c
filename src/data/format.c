#include "data/format.h"

#include <inttypes.h>
#include <string.h>

#include "base/input.h"
#include "base/status.h"

/* Megatron-LM's come first: their ids may look like any header. */
static const token_format *const formats[] = {&format_megatron, &format_llmc, &format_windows,
                                              &format_nanogpt};

#define FORMATS (sizeof formats / sizeof *formats)

const char *format_of_path(const char *path, const token_format **format) {
    for (size_t i = 0; i < FORMATS; i++) {
        const char *prefix = formats[i]->prefix;
        if (!prefix || strncmp(path, prefix, strlen(prefix))) continue;
        *format = formats[i];
        return path + strlen(prefix);
    }
    *format = NULL;
    return path;
}

static trine_status unknown(const format_file *file) {
    int32_t magic = 0;
    size_t header = FORMAT_HEADER * sizeof(int32_t);
    CHECK(file->bytes >= header, TRINE_EDATA,
          "%s: too short for a token file: %" PRIu64 " bytes, the header alone has %zu", file->path,
          file->bytes, header);
    TRY(input_read(file->fd, file->path, &magic, sizeof magic, 0));
    return RAISE(TRINE_EDATA,
                 "%s: not a token file: magic %d (valid: %d for uint16, %d for uint32), and no "
                 "index of Megatron-LM beside it; trine-tokens makes one from text, and %sFILE "
                 "reads uint16 tokens without a header",
                 file->path, magic, FORMAT_U16.magic, FORMAT_U32.magic, format_nanogpt.prefix);
}

trine_status format_of_file(const format_file *file, const token_format **format) {
    CHECK(file->bytes, TRINE_EDATA, "%s: the file is empty", file->path);
    for (size_t i = 0; i < FORMATS; i++) {
        bool is = false;
        if (formats[i]->is) TRY(formats[i]->is(file, &is));
        if (!is) continue;
        *format = formats[i];
        return TRINE_OK;
    }
    return unknown(file);
}
