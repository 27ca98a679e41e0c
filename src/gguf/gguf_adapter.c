#include "gguf/gguf_adapter.h"

#include <float.h>
#include <string.h>

#include "base/status.h"
#include "gguf/gguf_job.h"
#include "model/gpt.h"
#include "model/lora.h"

/* An alpha of 0 would be a scale of 1 in llama.cpp. */
static trine_status add_alpha(gguf_job *j) {
    const trine_lora *l = &j->model.lora;
    double alpha = lora_scale(l) * l->rank;
    CHECK(alpha >= FLT_MIN && alpha <= FLT_MAX, TRINE_EINVAL,
          "%s: adapters of rank %d with the scale %g: rank x scale, which a GGUF file contains, "
          "must be a positive float32",
          j->source->path, l->rank, lora_scale(l));
    gguf_f32(j->file, "adapter.lora.alpha", alpha);
    return TRINE_OK;
}

static trine_status describe(gguf_job *j) {
    CHECK(j->model.lora.rank, TRINE_EINVAL, "%s has no adapters", j->source->path);
    gguf_job_describe(j, "adapter");
    gguf_text(j->file, "adapter.type", "lora", strlen("lora"));
    TRY(add_alpha(j));
    for (size_t i = 0, count = gpt_tensor_count(&j->model); i < count; i++) {
        tensor t = gpt_tensor(&j->model, i);
        if (t.adapter) TRY(gguf_job_add(j, &t));
    }
    return TRINE_OK;
}

trine_status gguf_export_adapters(const ckpt_source *source, const gguf_request *request,
                                  const char *out) {
    gguf_job j = {.source = source, .request = request, .adapters = true};
    return gguf_job_run(&j, out, describe);
}
