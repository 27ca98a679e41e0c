#include "train/scaler.h"
#include "trine.h"

#include <math.h>

scaler scaler_of(const trine_precision *p) {
    if (!p->fp16) return (scaler){.scale = 1};
    if (p->loss_scale > 0) return (scaler){.scale = p->loss_scale};
    return (scaler){.scale = p->initial_loss_scale,
                    .min = p->min_loss_scale,
                    .window = p->loss_scale_window,
                    .hysteresis = p->hysteresis,
                    .left = p->hysteresis};
}

static scaler_verdict overflow(scaler *s) {
    s->good = 0;
    if (--s->left > 0) return SCALER_KEPT;
    s->left = 0;
    if (s->scale <= s->min) return SCALER_STUCK;
    s->scale = fmax(s->scale / 2, s->min);
    return SCALER_HALVED;
}

scaler_verdict scaler_update(scaler *s, bool overflowed) {
    if (s->min <= 0) return SCALER_KEPT;
    if (overflowed) return overflow(s);
    if (++s->good < s->window) return SCALER_KEPT;
    s->good = 0;
    s->left = s->hysteresis;
    s->scale *= 2;
    return SCALER_DOUBLED;
}
