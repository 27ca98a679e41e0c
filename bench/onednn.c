#include "onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define TRY_DNNL(call)                                                                             \
    do {                                                                                           \
        dnnl_status_t try_dnnl_ = (call);                                                          \
        CHECK(try_dnnl_ == dnnl_success, TRINE_EMATH, "oneDNN: %s: %s", #call,                     \
              dnnl_status2str(try_dnnl_));                                                         \
    } while (0)

enum { LEFT, RIGHT, OUT, BIAS, OPERANDS };

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

struct product {
    onednn *owner;
    int operands; /* BIAS, or OPERANDS with a bias */
    dnnl_memory_desc_t desc[OPERANDS];
    dnnl_memory_t memory[OPERANDS];
    dnnl_primitive_t primitive;
    char implementation[32];
};

const char *product_text(product_kind kind) {
    static const char *const texts[PRODUCT_KINDS] = {
#define PRODUCT_TEXT(name, text) [name] = text,
        PRODUCT_LIST(PRODUCT_TEXT)
#undef PRODUCT_TEXT
    };
    return texts[kind];
}

/* ---- The two versions ---- */

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t describe(dnnl_memory_desc_t *desc, dnnl_data_type_t type, dnnl_dims_t dims,
                              dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(desc, 2, dims, type, strides);
}

static void forget(dnnl_memory_desc_t *desc) {
    if (*desc) dnnl_memory_desc_destroy(*desc);
}

static dnnl_status_t allocate(product *p, int i) {
    return dnnl_memory_create(&p->memory[i], p->desc[i], p->owner->engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t choose(dnnl_primitive_desc_t *chosen, const product *p,
                            dnnl_primitive_attr_t attr, int choice) {
    const dnnl_memory_desc_t *d = p->desc;
    dnnl_status_t status =
        dnnl_matmul_primitive_desc_create(chosen, p->owner->engine, d[LEFT], d[RIGHT],
                                          p->operands > BIAS ? d[BIAS] : NULL, d[OUT], attr);
    if (status != dnnl_success) return status;
    for (int n = 0; status == dnnl_success && n < choice; n++)
        status = dnnl_primitive_desc_next_impl(*chosen);
    if (status != dnnl_success) dnnl_primitive_desc_destroy(*chosen);
    return status;
}

static dnnl_status_t append_sum(dnnl_post_ops_t post) {
    return dnnl_post_ops_append_sum(post, 1.0f, 0, dnnl_f32);
}

#else

static dnnl_status_t describe(dnnl_memory_desc_t *desc, dnnl_data_type_t type, dnnl_dims_t dims,
                              dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides);
}

static void forget(dnnl_memory_desc_t *desc) {
    (void)desc;
}

static dnnl_status_t allocate(product *p, int i) {
    return dnnl_memory_create(&p->memory[i], &p->desc[i], p->owner->engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t choose(dnnl_primitive_desc_t *chosen, const product *p,
                            dnnl_primitive_attr_t attr, int choice) {
    const dnnl_memory_desc_t *d = p->desc;
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, &d[LEFT], &d[RIGHT],
                                                 p->operands > BIAS ? &d[BIAS] : NULL, &d[OUT]);
    if (status != dnnl_success) return status;
    dnnl_primitive_desc_iterator_t at;
    status = dnnl_primitive_desc_iterator_create(&at, &desc, attr, p->owner->engine, NULL);
    if (status != dnnl_success) return status;
    for (int n = 0; status == dnnl_success && n < choice; n++)
        status = dnnl_primitive_desc_iterator_next(at);
    if (status == dnnl_success) {
        *chosen = dnnl_primitive_desc_iterator_fetch(at);
        if (!*chosen) status = dnnl_out_of_memory;
    }
    dnnl_primitive_desc_iterator_destroy(at);
    return status;
}

static dnnl_status_t append_sum(dnnl_post_ops_t post) {
    return dnnl_post_ops_append_sum(post, 1.0f);
}

#endif

/* ---- Making ---- */

static trine_status open_engine(onednn *o) {
    TRY_DNNL(dnnl_engine_create(&o->engine, dnnl_cpu, 0));
    TRY_DNNL(dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags));
    return TRINE_OK;
}

trine_status onednn_open(onednn **o) {
    *o = calloc(1, sizeof **o);
    CHECK(*o, TRINE_ENOMEM, "no memory for oneDNN");
    trine_status status = open_engine(*o);
    if (status != TRINE_OK) onednn_close(o);
    return status;
}

void onednn_close(onednn **o) {
    if (!*o) return;
    if ((*o)->stream) dnnl_stream_destroy((*o)->stream);
    if ((*o)->engine) dnnl_engine_destroy((*o)->engine);
    free(*o);
    *o = NULL;
}

/* A (rows, columns) matrix, or the transposed view of a (columns, rows) one. */
typedef struct {
    size_t rows, columns;
    bool transposed;
} view;

static trine_status add_operand(product *p, int i, dnnl_data_type_t type, view v) {
    dnnl_dims_t dims = {(dnnl_dim_t)v.rows, (dnnl_dim_t)v.columns};
    dnnl_dims_t strides = {v.transposed ? 1 : (dnnl_dim_t)v.columns,
                           v.transposed ? (dnnl_dim_t)v.rows : 1};
    TRY_DNNL(describe(&p->desc[i], type, dims, strides));
    TRY_DNNL(allocate(p, i));
    return TRINE_OK;
}

static trine_status make(product *p, const product_config *c) {
    size_t T = c->T, N = c->N, K = c->K;
    bool y = c->kind == PRODUCT_Y, dx = c->kind == PRODUCT_DX;
    dnnl_data_type_t type = c->type == TRINE_BF16 ? dnnl_bf16 : dnnl_f32;
    TRY(add_operand(p, LEFT, type,
                    y    ? (view){T, K, false}
                    : dx ? (view){T, N, false}
                         : (view){N, T, true}));
    TRY(add_operand(p, RIGHT, type,
                    y    ? (view){K, N, true}
                    : dx ? (view){N, K, false}
                         : (view){T, K, false}));
    TRY(add_operand(p, OUT, y || dx ? type : dnnl_f32,
                    y    ? (view){T, N, false}
                    : dx ? (view){T, K, false}
                         : (view){N, K, false}));
    if (p->operands > BIAS) TRY(add_operand(p, BIAS, type, (view){1, N, false}));
    return TRINE_OK;
}

static trine_status set_sum(dnnl_primitive_attr_t attr) {
    dnnl_post_ops_t post;
    TRY_DNNL(dnnl_post_ops_create(&post));
    dnnl_status_t status = append_sum(post);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attr, post);
    dnnl_post_ops_destroy(post);
    TRY_DNNL(status);
    return TRINE_OK;
}

/* At the end of its list of implementations the library returns an error, which is not an error here. */
static trine_status compile(product *p, dnnl_primitive_attr_t attr, int choice) {
    dnnl_primitive_desc_t chosen;
    const char *name = NULL;
    if (choice == 0) TRY_DNNL(choose(&chosen, p, attr, 0));
    if (choice > 0 && choose(&chosen, p, attr, choice) != dnnl_success) return TRINE_OK;
    dnnl_status_t status =
        dnnl_primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, (void *)&name);
    snprintf(p->implementation, sizeof p->implementation, "%s", name ? name : "?");
    if (status == dnnl_success && strncmp(p->implementation, "ref", 3) != 0)
        status = dnnl_primitive_create(&p->primitive, chosen);
    dnnl_primitive_desc_destroy(chosen);
    TRY_DNNL(status);
    return TRINE_OK;
}

const char *product_implementation(const product *p) {
    return p->implementation;
}

static trine_status fill(product *p, const product_config *c, int choice) {
    TRY(make(p, c));
    dnnl_primitive_attr_t attr;
    TRY_DNNL(dnnl_primitive_attr_create(&attr));
    trine_status status = c->kind == PRODUCT_DW_ADD ? set_sum(attr) : TRINE_OK;
    if (status == TRINE_OK) status = compile(p, attr, choice);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

trine_status product_create(product **p, onednn *o, const product_config *config, int choice) {
    *p = calloc(1, sizeof **p);
    CHECK(*p, TRINE_ENOMEM, "no memory for a matmul");
    (*p)->owner = o;
    (*p)->operands = config->biased ? OPERANDS : BIAS;
    trine_status status = fill(*p, config, choice);
    if (status != TRINE_OK || !(*p)->primitive) product_destroy(p);
    return status;
}

void product_destroy(product **p) {
    if (!*p) return;
    if ((*p)->primitive) dnnl_primitive_destroy((*p)->primitive);
    for (int i = 0; i < (*p)->operands; i++) {
        if ((*p)->memory[i]) dnnl_memory_destroy((*p)->memory[i]);
        forget(&(*p)->desc[i]);
    }
    free(*p);
    *p = NULL;
}

/* ---- Running ---- */

trine_status product_run(product *p, void *out, const void *left, const void *right,
                         const void *bias) {
    /* The library's handles are not const, but inputs are only read. */
    void *const handles[OPERANDS] = {(void *)(uintptr_t)left, (void *)(uintptr_t)right, out,
                                     (void *)(uintptr_t)bias};
    static const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                        DNNL_ARG_BIAS};
    dnnl_exec_arg_t args[OPERANDS];
    for (int i = 0; i < p->operands; i++) {
        TRY_DNNL(dnnl_memory_set_data_handle(p->memory[i], handles[i]));
        args[i] = (dnnl_exec_arg_t){names[i], p->memory[i]};
    }
    TRY_DNNL(dnnl_primitive_execute(p->primitive, p->owner->stream, p->operands, args));
    TRY_DNNL(dnnl_stream_wait(p->owner->stream));
    return TRINE_OK;
}
