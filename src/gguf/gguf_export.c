#include "gguf/gguf_export.h"

#include "base/status.h"
#include "gguf/gguf_job.h"
#include "gguf/gguf_tokenizer.h"
#include "model/gpt.h"

/* rope_freqs.weight: by how much each pair turns slower. */
static trine_status read_slowing(void *context, uint64_t row, uint64_t rows, float *to) {
    const gguf_job *j = context;
    (void)row, (void)rows;
    for (size_t i = 0; i < gpt_head_width(&j->shape) / 2; i++)
        to[i] = (float)rope_slowing(&j->shape, i);
    return TRINE_OK;
}

static trine_status add_tensors(gguf_job *j) {
    if (j->shape.rope_scaling.kind == TRINE_ROPE_LLAMA3)
        gguf_add(j->file, &(gguf_tensor){.name = "rope_freqs.weight",
                                         .vector = true,
                                         .rows = 1,
                                         .cols = gpt_head_width(&j->shape) / 2,
                                         .read = read_slowing,
                                         .context = j});
    for (size_t i = 0, count = gpt_tensor_count(&j->model); i < count; i++) {
        tensor t = gpt_tensor(&j->model, i);
        TRY(gguf_job_add(j, &t));
    }
    return TRINE_OK;
}

static trine_status describe(gguf_job *j) {
    gguf_job_describe(j, "model");
    gguf_family_describe(j->family, j->file, &j->model);
    TRY(gguf_tokenizer_describe(j->file, j->request, &j->model, j->source->path));
    return add_tensors(j);
}

trine_status gguf_export(const ckpt_source *source, const gguf_request *request, const char *out) {
    gguf_job j = {.source = source, .request = request};
    return gguf_job_run(&j, out, describe);
}
