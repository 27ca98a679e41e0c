/* TEST np=0 */
/* adapter_config.json: what is read, what is refused by name, what is written; and the sum of a matrix and its adapter
 * in each type. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ckpt/hf/merge.h"
#include "ckpt/hf/peft.h"

static trine_status parse(peft_config *c, const char *text) {
    return peft_config_parse(c, text, strlen(text), "adapter_config.json");
}

/* As PEFT writes one, followed by `more`: of duplicate entries the last counts. */
static trine_status parse_with(peft_config *c, const char *more) {
    char text[2000];
    snprintf(text, sizeof text,
             "{\"alpha_pattern\": {}, \"auto_mapping\": null, \"base_model_name_or_path\": "
             "\"models/smol\", \"bias\": \"none\", \"corda_config\": null, \"fan_in_fan_out\": "
             "false, \"inference_mode\": true, \"init_lora_weights\": true, \"layers_pattern\": "
             "null, \"loftq_config\": {}, \"lora_alpha\": 16, \"lora_bias\": false, "
             "\"lora_dropout\": 0.05, \"megatron_core\": \"megatron.core\", \"modules_to_save\": "
             "null, \"peft_type\": \"LORA\", \"peft_version\": \"0.18.0\", \"qalora_group_size\": "
             "16, \"r\": 4, \"rank_pattern\": {}, \"target_modules\": [\"v_proj\", "
             "\"q_proj\"], \"task_type\": \"CAUSAL_LM\", \"use_dora\": false, \"use_rslora\": "
             "false%s}",
             more);
    return parse(c, text);
}

static void values_are_read(void **state) {
    (void)state;
    peft_config c;
    OK(parse_with(&c, ""));
    assert_int_equal(c.lora.rank, 4);
    assert_true(c.lora.alpha == 16 && c.lora.dropout == 0.05 && !c.lora.rslora);
    assert_string_equal(c.lora.targets, "v_proj,q_proj");
    assert_string_equal(c.base, "models/smol");
    free(c.base);
    OK(parse_with(&c, ", \"use_rslora\": true, \"target_modules\": \"all-linear\", "
                      "\"base_model_name_or_path\": null"));
    assert_true(c.lora.rslora && !c.base);
    assert_string_equal(c.lora.targets, "all-linear");
    OK(parse(&c, "{\"peft_type\": \"LORA\"}")); /* PEFT's defaults */
    assert_int_equal(c.lora.rank, 8);
    assert_true(c.lora.alpha == 8 && c.lora.dropout == 0 && !c.lora.targets[0]);
}

static void others_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *more, *message;
        trine_status status;
    } rows[] = {
        {", \"peft_type\": \"IA3\"", "peft_type", TRINE_EINVAL},
        {", \"task_type\": \"SEQ_CLS\"", "task_type", TRINE_EINVAL},
        {", \"bias\": \"all\"", "bias", TRINE_EINVAL},
        {", \"use_dora\": true", "use_dora is not supported", TRINE_EINVAL},
        {", \"lora_bias\": true", "lora_bias is not supported", TRINE_EINVAL},
        {", \"rank_pattern\": {\"q_proj\": 2}", "rank_pattern is not supported", TRINE_EINVAL},
        {", \"modules_to_save\": [\"lm_head\"]", "modules_to_save is not supported", TRINE_EINVAL},
        {", \"layers_to_transform\": [1]", "layers_to_transform is not supported", TRINE_EINVAL},
        {", \"of_next_year\": 3", "of_next_year is not supported", TRINE_EINVAL},
        {", \"init_lora_weights\": \"pissa\"", "init_lora_weights is \"pissa\"", TRINE_EINVAL},
        {", \"target_modules\": \".*_proj\"", "\".*_proj\" is not the end of a module's name",
         TRINE_EINVAL},
        {", \"target_modules\": [3]", "\"not a string\"", TRINE_EINVAL},
        {", \"target_modules\": []", "target_modules is not a list", TRINE_EDATA},
        {", \"target_modules\": 3", "target_modules is not a list", TRINE_EDATA},
        {", \"r\": 0", "r", TRINE_EDATA},
        {", \"r\": 2.5", "r", TRINE_EDATA},
        {", \"lora_alpha\": -1", "lora_alpha", TRINE_EINVAL},
        {", \"lora_dropout\": 1", "lora_dropout 1", TRINE_EDATA},
        {", \"use_rslora\": 1", "use_rslora", TRINE_EINVAL},
    };
    peft_config c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        REFUSED(parse_with(&c, rows[i].more), rows[i].status, rows[i].message);
        free(c.base);
    }
    REFUSED(parse(&c, "{\"peft_type\": "), TRINE_EDATA, "adapter_config.json");
    REFUSED(parse(&c, "[]"), TRINE_EDATA, "adapter_config.json");
}

static void written_ones_are_read_again(void **state) {
    (void)state;
    static const trine_lora loras[] = {
        {.rank = 8},
        {.rank = 3, .alpha = 0.1, .dropout = 0.25, .rslora = true, .targets = "q_proj,mlp.up_proj"},
        {.rank = 1, .alpha = 64, .targets = "all-linear"},
    };
    static const char *const targets[] = {"q_proj,v_proj", "q_proj,mlp.up_proj", "all-linear"};
    for (size_t i = 0; i < sizeof loras / sizeof *loras; i++) {
        const trine_model m = {.family = &trine_llama, .lora = loras[i]};
        peft_config c;
        char *text;
        OK(peft_config_print(&m, i ? "base" : NULL, &text));
        OK(parse(&c, text));
        assert_int_equal(c.lora.rank, loras[i].rank);
        assert_true(c.lora.alpha == (loras[i].alpha > 0 ? loras[i].alpha : 8));
        assert_true(c.lora.dropout == loras[i].dropout && c.lora.rslora == loras[i].rslora);
        assert_string_equal(c.lora.targets, targets[i]);
        assert_true(i ? !strcmp(c.base, "base") : !c.base);
        free(c.base);
        free(text);
    }
}

/* (3, 2) + 0.5 (3, 2)(2, 2), each row by itself, stored either way. */
static void sums_are_rounded_once(void **state) {
    (void)state;
    float a[] = {1, 2, 3, 4}, b[] = {1, 0.5f, -1, 2, 0, 1};
    const float w[] = {1, 2, 3, 4, 5, 6}, sum[] = {2.25f, 4, 5.5f, 7, 6.5f, 8};
    for (int transposed = 0; transposed < 2; transposed++) {
        const merge_adapter m = {a, b, 2, 2, 3, 0.5, transposed};
        size_t rows = transposed ? 2 : 3, cols = 6 / rows;
        for (size_t row = 0; row < rows; row++) {
            float wide[3];
            uint16_t halves[2][3];
            for (size_t j = 0; j < cols; j++) {
                wide[j] = transposed ? w[j * 2 + row] : w[row * 2 + j];
                halves[0][j] = bf16_store(wide[j]), halves[1][j] = f16_store(wide[j]);
            }
            merge_rows(&m, wide, TRINE_F32, row, 1);
            merge_rows(&m, halves[0], TRINE_BF16, row, 1);
            merge_rows(&m, halves[1], TRINE_F16, row, 1);
            for (size_t j = 0; j < cols; j++) {
                float expected = transposed ? sum[j * 2 + row] : sum[row * 2 + j];
                assert_true(wide[j] == expected);
                assert_int_equal(halves[0][j], bf16_store(expected));
                assert_int_equal(halves[1][j], f16_store(expected));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(written_ones_are_read_again),
        cmocka_unit_test(sums_are_rounded_once),
    };
    return HARNESS_RUN_ALONE(tests);
}
