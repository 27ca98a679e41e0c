/* TEST np=0 */
/* Resolving lists of layers: error messages, placement of values and gradients, recomputation. */
#include <string.h>

#include "harness.h"
#include "model/families.h"
#include "model/family.h"
#include "model/gpt.h"
#include "trine.h"

static const gpt_shape shape = {.B = 2,
                                .T = 5,
                                .C = 8,
                                .H = 2,
                                .F = 12,
                                .L = 2,
                                .V = 11,
                                .tp = 1,
                                .recompute = TRINE_RECOMPUTE_NONE};

static const trine_model sizes = {.num_layers = 2,
                                  .hidden_size = 8,
                                  .num_attention_heads = 2,
                                  .ffn_hidden_size = 12,
                                  .seq_length = 5,
                                  .vocab_size = 11};

/* ---- Error messages ----------------------------------------------------------------------------- */

#define NORM(in_, out_)                                                                            \
    { TRINE_LAYER_NORM, "n_" out_, {in_}, .out = out_ }
#define ROWS(...)                                                                                  \
    (const trine_layer[]) {                                                                        \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }

typedef struct {
    const trine_layer *block;
    const char *says;
} bad_block;

static void bad_blocks_are_refused(void **state) {
    (void)state;
    const bad_block bad[] = {
        {ROWS(NORM("z", "y")), "row 1 (norm n_y): input \"z\" is not written by any earlier row"},
        {ROWS(NORM("x", "a")), "no row writes \"y\""},
        {ROWS(NORM("x", "a"), NORM("x", "y")), "no row reads \"a\""},
        {ROWS(NORM("x", "a"), {TRINE_LAYER_NORM, "n", {"a"}, .out = "a"}),
         "row 2 (norm n): value \"a\" already exists; use another name for the output"},
        {ROWS(NORM("x", "y"), NORM("y", "b")), "\"y\" must be written by the last row"},
        {ROWS({TRINE_LAYER_NORM, .in = {"x"}, .out = "y"}),
         "row 1 (norm): a layer with tensors needs a name"},
        {ROWS({TRINE_LAYER_NORM,
               "a_name_of_many_letters_and_still_more_of_them",
               {"x"},
               .out = "y"}),
         "the name is longer than 32 bytes"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q", .width = {TRINE_QKV, 2}},
              {TRINE_LAYER_ROW, "r", {"q"}, .out = "y"}),
         "row 1 (column c): invalid .width {2, 2}"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x"}, .out = "y", .no_bias = true}),
         "row 1 (norm n): .no_bias is not allowed for this kind of layer"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x"}, .out = "y", .tensors = {"a"}}),
         "row 1 (norm n): .tensors has 1 names; it is not allowed for this kind of layer"},
        {ROWS({TRINE_LAYER_COLUMN,
               "c",
               {"x"},
               .out = "q",
               .width = {TRINE_FFN, 2},
               .tensors = {"a"}},
              {TRINE_LAYER_SWIGLU, "s", {"q"}, .out = "h"},
              {TRINE_LAYER_ROW, "r", {"h"}, .out = "y"}),
         "row 1 (column c): .tensors has 1 names; the layer stacks another number of matrices"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q"},
              {TRINE_LAYER_SWIGLU, "s", {"q"}, .out = "h"},
              {TRINE_LAYER_ROW, "r", {"h"}, .out = "y"}),
         "row 2 (swiglu s): the input has the columns of 1 stacked matrices; it must have those of "
         "2"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q", .width = {TRINE_QKV, 1}},
              {TRINE_LAYER_ROPE, "p", {"q"}, .out = "rot"},
              {TRINE_LAYER_QK_NORM, "c", {"q"}, .out = "n"},
              {TRINE_LAYER_ATTENTION, "att", {"rot"}, .out = "o"},
              {TRINE_LAYER_ATTENTION, "att_2", {"n"}, .out = "o_2"},
              {TRINE_LAYER_ROW, "r", {"o", "x"}, .out = "m"},
              {TRINE_LAYER_ROW, "s", {"o_2", "m"}, .out = "y"}),
         "rope overwrites its input \"q\"; another row must write it"},
        {ROWS({TRINE_LAYER_NORM, "n", .out = "y"}), "row 1 (norm n): input 1 is missing"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x", "x"}, .out = "y"}),
         "row 1 (norm n): input 2 (\"x\") is not allowed for this kind of layer"},
        {ROWS({TRINE_LAYER_NORM, "n", .in = {"x"}}),
         "row 1 (norm n): the output (.out) is missing"},
        {ROWS({TRINE_LAYER_GELU, "g", {"x"}, .out = "y"}),
         "input \"x\" is in the residual stream; it must be inside a tp region"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "y", .width = {TRINE_FFN, 1}}),
         "\"y\" is inside a tp region; add a ROW layer"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q", .width = {TRINE_HIDDEN, 2}},
              {TRINE_LAYER_ATTENTION, "att", {"q"}, .out = "o"},
              {TRINE_LAYER_ROW, "r", {"o", "x"}, .out = "y"}),
         "row 2 (attention att): the input has 16 columns; it must have 24"},
        {ROWS({TRINE_LAYER_TOKENS, "t", .out = "y"}),
         "only the embedding and the head may use the token matrix"},
        {ROWS({(trine_layer_kind)99, "t", .out = "y"}), "row 1: unknown layer kind 99"},
        {ROWS({0}), "the list has no rows"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q", .width = {TRINE_HIDDEN, 4}},
              {TRINE_LAYER_GELU, "g", {"q"}, .out = "h"},
              {TRINE_LAYER_ROW, "r", {"h"}, .out = "y"}),
         "row 3 (row r): the input has the columns of 4 stacked matrices; it must have those of 1"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q", .width = {TRINE_HIDDEN, -1}},
              {TRINE_LAYER_ROW, "r", {"q"}, .out = "y"}),
         "row 1 (column c): invalid .width {0, -1}; use {TRINE_HIDDEN, N} or {TRINE_FFN, N}, N "
         "from 1 to 64, or {TRINE_QKV, 1}"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x"}, .out = "y", .width = {TRINE_FFN, 1}}),
         "row 1 (norm n): .width is not allowed for this kind of layer"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x"}, .out = "y", .dropout = "n.dropout"}),
         "row 1 (norm n): .dropout is not allowed for this kind of layer"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x"}, .out = "a"},
              {TRINE_LAYER_NORM, "n", {"a"}, .out = "y"}),
         "row 2 (norm n): the name is already used by row 1"},
        {ROWS({TRINE_LAYER_COLUMN, "c", {"x"}, .out = "q"},
              {TRINE_LAYER_ROW, "r", {"q"}, .out = "m", .dropout = "d"},
              {TRINE_LAYER_ROW, "s", {"q", "m"}, .out = "y", .dropout = "d"}),
         "row 3 (row s): dropout name \"d\" is already used by row 2"},
        {ROWS({TRINE_LAYER_NORM, "n", {"x"}, .out = "a"},
              {TRINE_LAYER_POSITIONS, "p", {"a"}, .out = "y"}),
         "positions must read the output of TOKENS"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const trine_family family = {.name = "bad",
                                     .embedding = learned_positions,
                                     .block = bad[i].block,
                                     .head = normed_head};
        trine_model m = sizes;
        m.family = &family;
        REFUSED(gpt_check_family(&m), TRINE_EINVAL, bad[i].says);
    }
}

static void bad_ends_are_refused(void **state) {
    (void)state;
    const trine_layer *late_tokens = ROWS(NORM("x", "y"));
    const trine_layer *no_loss = ROWS(NORM("x", "y"));
    const trine_layer *bare_loss = ROWS({TRINE_LAYER_LOSS, "lm_head", .in = {"x"}});
    const trine_layer *same_name = ROWS(NORM("x", "n"), {TRINE_LAYER_LOSS, "wte", .in = {"n"}});
    const struct {
        const trine_layer *embedding, *head;
        const char *says;
    } bad[] = {
        {late_tokens, normed_head, "an embedding may contain only TOKENS and POSITIONS"},
        {learned_positions, no_loss, "LOSS must be the last row of a head"},
        {learned_positions, learned_positions, "TOKENS must be the first row of an embedding"},
        {learned_positions, bare_loss,
         "loss overwrites its input \"x\"; another row must write it"},
        {learned_positions, same_name,
         "family \"bad\": embedding and head both have a layer named \"wte\""}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const trine_family family = {.name = "bad",
                                     .embedding = bad[i].embedding,
                                     .block = parallel_block,
                                     .head = bad[i].head};
        trine_model m = sizes;
        m.family = &family;
        REFUSED(gpt_check_family(&m), TRINE_EINVAL, bad[i].says);
    }
}

/* A rotation turns pairs of elements. */
static void heads_of_an_odd_width_are_refused(void **state) {
    (void)state;
    trine_model m = sizes;
    m.family = &trine_llama;
    m.kv_channels = 5;
    REFUSED(gpt_check_family(&m), TRINE_EINVAL,
            "row 3 (rope self_attn.rope): rotary positions need heads of an even width, not 5");
    m.kv_channels = 6;
    OK(gpt_check_family(&m));
}

/* An invalid family is reported together with the other faults of a configuration. */
static void a_configuration_names_the_fault(void **state) {
    (void)state;
    const trine_family family = {.name = "bad",
                                 .embedding = learned_positions,
                                 .block = ROWS(NORM("z", "y")),
                                 .head = normed_head};
    trine_config c = trine_config_default();
    c.model = sizes;
    c.model.family = &family;
    c.micro_batch_size = 0;
    REFUSED(trine_config_check(&c, 1), TRINE_EINVAL, "family \"bad\", block: ");
    REFUSED(trine_config_check(&c, 1), TRINE_EINVAL, "--micro-batch-size 0");
}

/* ---- Placement ---------------------------------------------------------------------------------- */

static unit_list block_of(const trine_family *family, trine_recompute recompute) {
    gpt_shape s = shape;
    unit_list l;
    s.family = family;
    s.recompute = recompute;
    OK(list_resolve(&l, &s, UNIT_BLOCK));
    return l;
}

static const list_value *value_of(const unit_list *l, const char *name) {
    for (int v = 0; v < l->value_count; v++)
        if (strcmp(l->values[v].name, name) == 0) return &l->values[v];
    fail_msg("no value \"%s\"", name);
    return NULL;
}

/* A GPT-2 block needs two gradient buffers: one that peers read, which attention's gradient shares, and the widest.
 */
static void gradients_share_buffers(void **state) {
    (void)state;
    unit_list l = block_of(&trine_gpt2, TRINE_RECOMPUTE_NONE);
    assert_int_equal(l.buffer_count, 2);
    assert_true(l.buffers[0].peers);
    assert_int_equal(l.buffers[0].elements, 10 * 8);
    assert_false(l.buffers[1].peers);
    assert_int_equal(l.buffers[1].elements, 10 * 24);
    for (int n = 0; n < l.count; n++) assert_int_equal(l.layers[n].sums[0].dst.place, GRAD_NOWHERE);
    assert_int_equal(l.input_grad.place, GRAD_STREAM);
}

/* "a" is read by two products: the second one's gradient is added to the first one's, once. */
static void gradients_of_two_readers_are_added(void **state) {
    (void)state;
    unit_list l = block_of(&parallel_family, TRINE_RECOMPUTE_NONE);
    int sums = 0;
    for (int n = 0; n < l.count; n++)
        for (int i = 0; i < TRINE_LAYER_INPUTS; i++) {
            if (l.layers[n].sums[i].dst.place == GRAD_NOWHERE) continue;
            assert_string_equal(l.layers[n].row->name, "attn.qkv");
            assert_string_equal(l.values[l.layers[n].sums[i].value].name, "a");
            sums++;
        }
    assert_int_equal(sums, 1);
    assert_int_equal(value_of(&l, "m")->place, VALUE_BUFFER); /* no backward pass reads it */
}

/* Full recomputation reruns only the layers whose output the backward pass needs: in GPT-2 all except GELU and the
 * last product; with parallel branches the last product of the first branch is not rerun either. */
static void what_is_run_again(void **state) {
    (void)state;
    unit_list l = block_of(&trine_gpt2, TRINE_RECOMPUTE_FULL);
    for (int n = 0; n < l.count; n++) assert_int_equal(l.layers[n].rerun, n < 6);
    l = block_of(&parallel_family, TRINE_RECOMPUTE_FULL);
    for (int n = 0; n < l.count; n++) assert_int_equal(l.layers[n].rerun, n < 3 || n == 4);
    l = block_of(&trine_gpt2, TRINE_RECOMPUTE_SELECTIVE);
    for (int n = 0; n < l.count; n++) assert_false(l.layers[n].rerun);
    assert_int_equal(value_of(&l, "a")->at, value_of(&l, "b")->at); /* both norms share a buffer */
    assert_int_equal(value_of(&l, "qkv")->place, VALUE_KEPT);
    assert_int_equal(value_of(&l, "gelu")->place, VALUE_REBUILT);
}

/* ---- Names and sizes ---------------------------------------------------------------------------- */

static void a_name_belongs_to_one_family(void **state) {
    (void)state;
    static const trine_family twin = {.name = "gpt2"};
    trine_model m = sizes;
    OK(trine_family_add(&parallel_family));
    OK(trine_family_add(&parallel_family));
    REFUSED(trine_family_add(&twin), TRINE_EINVAL,
            "family name \"gpt2\" is already used by another family");
    m.family = &parallel_family;
    assert_int_equal(gpt_tensor_count(&m), 2 + 2 + 2 * 10);
    assert_string_equal(gpt_tensor(&m, 4).name, "h.0.ln_1.weight");
    assert_string_equal(gpt_tensor(&m, 23).name, "h.1.mlp.fc_out.bias");
    assert_false(gpt_tensor(&m, 6).transposed);
    m.family = NULL;
    assert_true(gpt_tensor(&m, 6).transposed);
}

/* A checkpoint has the text of its family; the program's lists may have changed since. */
static void a_text_is_that_of_the_layers(void **state) {
    (void)state;
    const trine_family *found = NULL;
    char text[FAMILY_TEXT];
    OK(family_of_text(&found, family_text(&trine_llama, text)));
    assert_ptr_equal(found, &trine_llama);
    char *digit = &text[strlen(text) - 1];
    *digit = *digit == '0' ? '1' : '0';
    REFUSED(family_of_text(&found, text), TRINE_EINVAL, "family \"llama\"");
}

/* The block has one norm less than GPT-2's and is otherwise the same size. */
static void counts_follow_the_list(void **state) {
    (void)state;
    trine_model own = sizes, gpt2 = sizes;
    own.family = &parallel_family;
    assert_true(gpt_parameters(&gpt2) - gpt_parameters(&own) == 2 * 2 * 8);
    assert_true(gpt_flops_per_token(&gpt2) == gpt_flops_per_token(&own));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_blocks_are_refused),
        cmocka_unit_test(bad_ends_are_refused),
        cmocka_unit_test(heads_of_an_odd_width_are_refused),
        cmocka_unit_test(a_configuration_names_the_fault),
        cmocka_unit_test(gradients_share_buffers),
        cmocka_unit_test(gradients_of_two_readers_are_added),
        cmocka_unit_test(what_is_run_again),
        cmocka_unit_test(a_name_belongs_to_one_family),
        cmocka_unit_test(a_text_is_that_of_the_layers),
        cmocka_unit_test(counts_follow_the_list),
    };
    return HARNESS_RUN_ALONE(tests);
}
