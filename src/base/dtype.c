#include "trine_types.h"

size_t trine_dtype_bytes(trine_dtype type) {
    switch (type) {
#define DTYPE_CASE(name, text, bytes)                                                              \
    case name: return bytes;
        TRINE_DTYPE_LIST(DTYPE_CASE)
#undef DTYPE_CASE
    }
    return 0;
}
