#include "comm_setting.h"

#include <mpi.h>
#include <stdio.h>

/* The name that an enumeration has for a value; the number if it has none. */
static void enumerated(MPI_T_enum words, int value, char text[SETTING_SIZE]) {
    char word[SETTING_SIZE];
    int count = 0, length = sizeof word;
    if (MPI_T_enum_get_info(words, &count, word, &length) != MPI_SUCCESS) return;
    for (int i = 0; i < count; i++) {
        int number = 0;
        length = sizeof word;
        if (MPI_T_enum_get_item(words, i, &number, word, &length) == MPI_SUCCESS && number == value)
            snprintf(text, SETTING_SIZE, "%s", word);
    }
}

static void read_variable(int index, char text[SETTING_SIZE]) {
    int verbosity, binding, scope, count = 0, value = 0;
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_info(index, NULL, NULL, &verbosity, &type, &words, NULL, NULL, &binding,
                            &scope) != MPI_SUCCESS ||
        type != MPI_INT || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return;
    if (count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS) {
        snprintf(text, SETTING_SIZE, "%d", value);
        if (words != MPI_T_ENUM_NULL) enumerated(words, value, text);
    }
    MPI_T_cvar_handle_free(&handle);
}

const char *mpi_setting(const char *name, char text[SETTING_SIZE]) {
    int provided = 0, index = 0;
    snprintf(text, SETTING_SIZE, "-");
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return text;
    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS) read_variable(index, text);
    MPI_T_finalize();
    return text;
}
