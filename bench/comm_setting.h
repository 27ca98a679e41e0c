/* What the MPI library has been told, whoever told it (a launcher, a file, an environment variable): it
 * says so itself, through MPI's tool interface (MPI 3.1, section 14.3).
 *
 * Invariant: a library that has no such variable is not an error. Cost: a look-up. */
#ifndef TRINE_BENCH_COMM_SETTING_H
#define TRINE_BENCH_COMM_SETTING_H

#define SETTING_SIZE 64

/* Writes the value of the control variable `name`, an int or an enumeration, and returns text: "-" if
 * the library has none of that name and kind. MPI must be running. Not collective. */
const char *mpi_setting(const char *name, char text[SETTING_SIZE]);

#endif
