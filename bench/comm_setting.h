/* Settings of the MPI library, wherever they come from (launcher, file, environment), through MPI's tool
 * interface (MPI 3.1, section 14.3).
 *
 * Invariant: a variable that the library does not have is not an error. Cost: a look-up. */
#ifndef TRINE_BENCH_COMM_SETTING_H
#define TRINE_BENCH_COMM_SETTING_H

#define SETTING_SIZE 64

/* Writes the value of the control variable `name`, an int or an enumeration, to text and returns it; "-" if
 * the library has no such variable. MPI must be running. Not collective. */
const char *mpi_setting(const char *name, char text[SETTING_SIZE]);

#endif
