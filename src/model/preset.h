/* The models that are known by name. GPT-2: Radford et al. 2019, table 2. GPT-3: Brown et al. 2020, table 2.1;
 * its 13B has 5140 hidden there, which 40 heads of 128 do not make: 5120. gpt3-1t: Narayanan et al. 2021, table
 * 1. The others: config.json of the model of that name on huggingface.co. Sequences are at most 4096 tokens,
 * which --seq-length changes. */
#ifndef TRINE_MODEL_PRESET_H
#define TRINE_MODEL_PRESET_H

#define NO_SCALING      (TRINE_ROPE_DEFAULT, 0, 0, 0, 0)
#define LLAMA_SCALING(f) (TRINE_ROPE_LLAMA3, f, 1, 4, 8192)

/* name, family, layers, hidden, heads, groups, head width, MLP, vocabulary, sequence, untied, epsilon, base, scaling;
 * 0 is the default of trine_model. */
#define PRESET_LIST(X)                                                                                              \
    X("gpt2", gpt2, 12, 768, 12, 0, 0, 0, 50257, 1024, false, 0, 0, NO_SCALING)                                     \
    X("gpt2-medium", gpt2, 24, 1024, 16, 0, 0, 0, 50257, 1024, false, 0, 0, NO_SCALING)                             \
    X("gpt2-large", gpt2, 36, 1280, 20, 0, 0, 0, 50257, 1024, false, 0, 0, NO_SCALING)                              \
    X("gpt2-xl", gpt2, 48, 1600, 25, 0, 0, 0, 50257, 1024, false, 0, 0, NO_SCALING)                                 \
    X("gpt3-13b", gpt2, 40, 5120, 40, 0, 0, 0, 50257, 2048, false, 0, 0, NO_SCALING)                                \
    X("gpt3-175b", gpt2, 96, 12288, 96, 0, 0, 0, 50257, 2048, false, 0, 0, NO_SCALING)                              \
    X("gpt3-1t", gpt2, 128, 25600, 160, 0, 0, 0, 51200, 2048, false, 0, 0, NO_SCALING)                              \
    X("smollm2-135m", llama, 30, 576, 9, 3, 0, 1536, 49152, 4096, false, 0, 1e5, NO_SCALING)                        \
    X("smollm2-360m", llama, 32, 960, 15, 5, 0, 2560, 49152, 4096, false, 0, 1e5, NO_SCALING)                       \
    X("smollm2-1.7b", llama, 24, 2048, 32, 0, 0, 8192, 49152, 4096, false, 0, 1.3e5, NO_SCALING)                    \
    X("llama2-7b", llama, 32, 4096, 32, 0, 0, 11008, 32000, 4096, true, 0, 0, NO_SCALING)                           \
    X("llama2-13b", llama, 40, 5120, 40, 0, 0, 13824, 32000, 4096, true, 0, 0, NO_SCALING)                          \
    X("llama3.2-1b", llama, 16, 2048, 32, 8, 0, 8192, 128256, 4096, false, 0, 5e5, LLAMA_SCALING(32))               \
    X("llama3.2-3b", llama, 28, 3072, 24, 8, 0, 8192, 128256, 4096, false, 0, 5e5, LLAMA_SCALING(32))               \
    X("llama3.1-8b", llama, 32, 4096, 32, 8, 0, 14336, 128256, 4096, true, 0, 5e5, LLAMA_SCALING(8))                \
    X("llama3.1-70b", llama, 80, 8192, 64, 8, 0, 28672, 128256, 4096, true, 0, 5e5, LLAMA_SCALING(8))               \
    X("llama3.1-405b", llama, 126, 16384, 128, 8, 0, 53248, 128256, 4096, true, 0, 5e5, LLAMA_SCALING(8))           \
    X("mistral-7b", mistral, 32, 4096, 32, 8, 0, 14336, 32768, 4096, true, 0, 1e6, NO_SCALING)                      \
    X("qwen2.5-0.5b", qwen2, 24, 896, 14, 2, 0, 4864, 151936, 4096, false, 1e-6, 1e6, NO_SCALING)                   \
    X("qwen2.5-1.5b", qwen2, 28, 1536, 12, 2, 0, 8960, 151936, 4096, false, 1e-6, 1e6, NO_SCALING)                  \
    X("qwen2.5-7b", qwen2, 28, 3584, 28, 4, 0, 18944, 152064, 4096, true, 1e-6, 1e6, NO_SCALING)                    \
    X("qwen3-0.6b", qwen3, 28, 1024, 16, 8, 128, 3072, 151936, 4096, false, 1e-6, 1e6, NO_SCALING)                  \
    X("qwen3-1.7b", qwen3, 28, 2048, 16, 8, 0, 6144, 151936, 4096, false, 1e-6, 1e6, NO_SCALING)                    \
    X("qwen3-4b", qwen3, 36, 2560, 32, 8, 128, 9728, 151936, 4096, false, 1e-6, 1e6, NO_SCALING)                    \
    X("qwen3-8b", qwen3, 36, 4096, 32, 8, 0, 12288, 151936, 4096, true, 1e-6, 1e6, NO_SCALING)

#endif
