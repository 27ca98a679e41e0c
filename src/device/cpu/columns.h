/* Sums over rows are split among threads by columns, so that no thread count changes them: a thread
 * takes COLUMNS columns (a few cache lines of a row), and adds up ROWS rows before it adds to the
 * total, so that the rounding grows with ROWS + T / ROWS and not with T. */
#ifndef TRINE_DEVICE_CPU_COLUMNS_H
#define TRINE_DEVICE_CPU_COLUMNS_H

#define COLUMNS 64
#define ROWS    64

#endif
