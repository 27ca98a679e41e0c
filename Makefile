# Trine. `make` builds build/libtrine.a and the examples; `make check` builds and runs all tests;
# `make demo` trains on 8 ranks. Everything that is built lies under $(BUILD).
BUILD  ?= build
CC     ?= cc
PREFIX ?= /usr/local

# The compiler is the user's; MPI's flags are asked from its own wrapper, so that OMPI_CC and
# friends need not be set.
MPICC      ?= mpicc
MPI_CFLAGS ?= $(shell $(MPICC) --showme:compile 2>/dev/null || $(MPICC) -compile_info 2>/dev/null | cut -d' ' -f2-)
MPI_LIBS   ?= $(shell $(MPICC) --showme:link 2>/dev/null || $(MPICC) -link_info 2>/dev/null | cut -d' ' -f2-)

WARN   := -Wall -Wextra -Wshadow -Wconversion -Werror
OPT    ?= -O3 -march=native -ffp-contract=off
CFLAGS ?= $(OPT) -g
# sqrtf without errno is one instruction, and loops with it vectorise; no value changes.
CSTD   := -std=c11 -D_GNU_SOURCE -fno-math-errno
OMP    ?= -fopenmp
ALL_CFLAGS := $(CSTD) $(WARN) $(OMP) $(CFLAGS) -Iinclude -Isrc $(SAN)
ALL_LIBS   := -ldnnl -lcjson -lxxhash $(MPI_LIBS) $(OMP) -lm -lpthread $(SAN)

SRC      := $(wildcard src/*/*.c src/device/*/*.c)
OBJ      := $(SRC:src/%.c=$(BUILD)/obj/%.o)
LIB      := $(BUILD)/libtrine.a
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(wildcard examples/*.c))
TOOL_SRC := $(wildcard tools/*.c)
TOOLS    := $(addprefix $(BUILD)/,$(subst _,-,$(notdir $(TOOL_SRC:.c=))))
TESTSRC  := $(filter-out tests/harness.c,$(wildcard tests/*/*.c))
TESTS    := $(TESTSRC:tests/%.c=$(BUILD)/tests/%)

.PHONY: all tests clean
all: $(LIB) $(EXAMPLES) $(TOOLS)
tests: $(TESTS)

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(if $(filter src/comm/%,$<),$(MPI_CFLAGS)) -MMD -MP -c $< -o $@

$(LIB): $(OBJ)
	@rm -f $@
	ar rcs $@ $(OBJ)

$(BUILD)/%: examples/%.c $(LIB)
	$(CC) $(ALL_CFLAGS) -MMD -MP $< -o $@ $(LIB) $(ALL_LIBS)

# tools/trine_tokens.c becomes $(BUILD)/trine-tokens.
define TOOL_RULE
$(BUILD)/$(subst _,-,$(notdir $(1:.c=))): $(1) $(LIB)
	$$(CC) $$(ALL_CFLAGS) -MMD -MP -MF $$@.d $$< -o $$@ $$(LIB) $$(ALL_LIBS)
endef
$(foreach source,$(TOOL_SRC),$(eval $(call TOOL_RULE,$(source))))

$(BUILD)/tests/harness.o: tests/harness.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/tests/%: tests/%.c $(LIB) $(BUILD)/tests/harness.o
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(MPI_CFLAGS) -Itests -MMD -MP $< -o $@ $(BUILD)/tests/harness.o $(LIB) -lcmocka $(ALL_LIBS)

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(TESTS:=.d) $(EXAMPLES:=.d) $(TOOLS:=.d) $(BUILD)/tests/harness.d
