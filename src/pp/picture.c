#include "pp/pp.h"
double pp_picture(const program *stages, FILE *out) { (void)stages; (void)out; return 0; }
