# Trine.
#
#   make              build/libtrine.a, the shared library, examples and tools; if CUDA is found, also
#                     build/libtrine_cuda.so, which they open for --device cuda (tools/cuda.sh)
#   make check        install missing packages, build, check the layering, run all tests
#                     DEVICE=cuda: only the tests that use a GPU, on the real one (docs/gpu.md)
#   make check-full   the long tests in parts of minutes to an hour each, with a table of their times;
#                     PART="ckpt lost" selects parts: ckpt (checkpoints), lost (killed runs, two jobs), wait (stopped
#                     ranks), mix (every layout), cover (every option with every other), exact (--exact on every
#                     layout), gpu (the mix, emulated), races (of all kernels; shared memory, for longer), bare (make demo and make check on a minimal
#                     Debian, the demo also without root), packages (Debian's, and a container: built, run, removed), levels (MARCH=any, emulated processors),
#                     slurm (jobs under Slurm), report (pages in Chromium), mpich,
#                     openmpi5, mpich5 (make check with these MPIs), aarch64 (an emulated Arm), train (the rest)
#                     (a part that could not be run: tests/full.sh exits with 77)
#   make test T=tp    the tests of one folder; T=tp/linear: one file; T="tp ckpt/load": these
#                     CHANGED=1: a minute of those that execute what has changed since the last commit (tests/changed.sh)
#   make mutants      plant faults in a copy of the tree; each must make its test fail; M="tie-skipped ...": some
#                     MATRIX=1: all tests that execute it, into tests/mutants/matrix (nights, or slices; docs/testing.md)
#   make coverage     which test executes which line: tests/coverage (an hour on two cores)
#   make fuzz         fuzz the file readers with libFuzzer under sanitizers; MINUTES=1 (integer) each; T=manifest: one
#                     T=page: mutated logs and traces for trine-report's page, in Chromium (tests/report/fuzz.t; TRINE_SEED)
#   make bench-comm   collectives against those of MPI on 2 and 8 ranks; RANKS=8 BENCH_COMM="--only reduce ..."
#   make check-outside  compare with PyPI's PyTorch, transformers and tokenizers (docs/testing.md): TRINE_PYTHON has them, or a
#                     venv of some GiB is made under the build folder; never part of make check
#   make demo         train on 8 ranks on this machine
#                     MODEL=smollm2: fine-tune a model of Hugging Face on 6 ranks; needs what check-outside needs
#   make bench        benchmarks, each figure with its limit (bench/README.md); B="matmul step": some
#                     parts; REPS=3 LAYERS=2: a quick look; JSON=FILE: write the numbers as JSON;
#                     BF16=1: only bf16 (default: fp32, and bf16 where the processor has it);
#                     DEVICE=cuda [MODEL=gpt2-xl] [TF32=1 or BF16=1]: on the GPU
#   make install      the library, the tools, the trainer as trine-train, and manual pages; PREFIX (/usr/local) or
#                     GNU's prefix, bindir, libdir, mandir ..., DESTDIR; make uninstall removes them
#   make dist         BUILD/trine-VERSION.tar.gz of the newest commit, with the same bytes in every clone (docs/install.md)
#   make dist-binary  BUILD/trine-VERSION-x86_64.tar.gz of programs that run with any MPI of the standard ABI (MPI_ABI=1)
#   make abi-check    the shared library against packaging/abi, the record of the last release; make abi-record writes it
#   make layers, format-check, deps, clean
#
# CUDA=0 builds without CUDA, CUDA=1 fails if it is missing; CUDA_HOME and NCCL_HOME are its locations. CUDA_SM=90 builds
# for that architecture alone (default: "80 90"), in half the time. Tests need neither: build/emu/libtrine_cuda.so is
# the same code on the CPU (docs/testing.md).
# PCRE2=/opt/pcre2 builds with the PCRE2 of that prefix; default: the system's (docs/tokenizers.md).
# MPI_ABI=1 builds with mpicc_abi (MPICC=) for any library with MPI 5's standard ABI, libmpi_abi (docs/mpi.md).
# MARCH=x86-64-v3 builds for other machines (default: native): any -march= of the compiler. A processor that lacks
# an instruction set gets a message. MARCH=any: for all x86-64 from v2 on, with kernels for each level of which a run
# chooses (docs/install.md); on other architectures the compiler's default.
# All output goes under BUILD. Warnings are errors in .ci/run (WERROR=-Werror), but not by default, where the
# compiler may be an untested one. SAN="-fsanitize=address,undefined" adds sanitizers.
# A build prints one short line for each file (CC src/base/rng.c); V=1 prints the commands. It uses all cores, unless
# -j or MAKEFLAGS says otherwise, and ccache where it is installed (CCACHE= switches it off).
BUILD  ?= build
CC     ?= cc
PREFIX ?= /usr/local
WERROR ?=

# Where tools/deps.sh --user has unpacked what this system lacks.
-include deps.mk

# All cores. A -j of the command line overrides this; one in the environment's MAKEFLAGS, a parent's above all, does not.
# (Until make 4.3 neither shows in $(MAKEFLAGS) here.) make clean all must not do both at once.
given_flags := $(MAKEFLAGS) $(shell echo "$$MAKEFLAGS")
ifeq ($(filter -j% --jobs% --jobserver%,$(given_flags))$(filter clean uninstall,$(MAKECMDGOALS)),)
MAKEFLAGS += -j$(shell nproc)
endif

# The compiler is the user's. MPI's flags are queried from its wrapper, once and only when something is compiled:
# on a fresh machine the wrapper is not installed yet when this file is read. (Open MPI has --showme, MPICH
# -compile_info.) MPI's headers are system headers, so that they cause no warnings.
MPICC      ?= $(if $(filter 1,$(MPI_ABI)),mpicc_abi,mpicc)
ask_mpi     = $(or $(shell $(MPICC) --showme:$(1) 2>/dev/null),$(wordlist 2,999,$(shell $(MPICC) -$(1)_info 2>/dev/null)))
MPI_CFLAGS ?= $(eval MPI_CFLAGS := $(patsubst -I%,-isystem%,$(call ask_mpi,compile)))$(MPI_CFLAGS)
MPI_LIBS   ?= $(eval MPI_LIBS := $(call ask_mpi,link))$(MPI_LIBS)
# MPI_ABI=1: the library that is linked must be the one that has the standard's binary interface.
abi_checked = $(if $(filter 1,$(MPI_ABI)),$(if $(filter -lmpi_abi,$(1)),,$(error MPI_ABI=1 needs -lmpi_abi, but $(MPICC) links \
              "$(1)"; name the compiler wrapper of an MPI 5 library, MPICC=.../mpicc_abi))$(1),$(1))

# FLOAT is required by the code, not a choice of the user. No contraction: equal bits are promised for
# one build, whichever function a product and a sum are compiled in. No errno: sqrtf becomes one
# instruction and loops with it vectorise; no value changes.
FLOAT  := -ffp-contract=off -fno-math-errno
MARCH  ?= native
# Of MARCH=any: what its kernels are compiled for (src/base/levels.h), each with flags; everything else is for the first.
# On other processors than x86-64 there is one level, the compiler's default.
ANY    := $(and $(filter any,$(MARCH)),$(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)))
LEVELS := $(if $(ANY),v2 v3 v4 v4_bf16)
LEVEL_v2      := -march=x86-64-v2
# GCC copies by 16 bytes otherwise, which loads of 32 wait for: a sum of addends takes seven times as long.
WIDE_COPIES    = $(shell $(CC) -march=x86-64-v3 -mmove-max=256 -mstore-max=256 -E -x c /dev/null >/dev/null 2>&1 && \
                 echo -mmove-max=256 -mstore-max=256)
LEVEL_v3      := -march=x86-64-v3 $(if $(ANY),$(WIDE_COPIES))
LEVEL_v4      := -march=x86-64-v4
LEVEL_v4_bf16 := -march=x86-64-v4 -mavx512bf16
MARCH_FLAGS := $(if $(filter any,$(MARCH)),$(LEVEL_$(firstword $(LEVELS))),-march=$(MARCH))
OPT    ?= -O3 $(MARCH_FLAGS)
CFLAGS ?= $(OPT) -g
OMP    ?= -fopenmp
WARN   := -Wall -Wextra -Wshadow -Wconversion
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE $(WARN) $(OMP) -fPIC -fno-semantic-interposition $(CFLAGS) $(FLOAT) \
              -Iinclude -Isrc $(PCRE2_CFLAGS) $(if $(ANY),$(LEVEL_v2) -DEVERY_LEVEL) $(SAN)
# For the one file that runs first and checks that the processor supports MARCH (src/base/processor.h).
BASELINE    = $(BASELINE_$(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null))))
BASELINE_x86_64  := -march=x86-64 -mno-avx
BASELINE_aarch64 := -march=armv8-a
# C++ is needed only for the tests; CXX is the compiler that belongs to CC.
ifeq ($(origin CXX),default)
CXX    := $(patsubst gcc%,g++%,$(patsubst clang%,clang++%,$(patsubst cc,c++,$(notdir $(CC)))))
endif
# PCRE2 is the system's, or that of a prefix (PCRE2=/opt/pcre2): a newer one has a newer Unicode (docs/tokenizers.md).
ifneq ($(PCRE2),)
PCRE2_DIR := $(patsubst %/,%,$(dir $(firstword $(wildcard $(PCRE2)/lib/libpcre2-8.* $(PCRE2)/lib64/libpcre2-8.* \
             $(PCRE2)/lib/*/libpcre2-8.*))))
$(if $(PCRE2_DIR),,$(error PCRE2=$(PCRE2): no libpcre2-8 in its lib or lib64; leave PCRE2 out for the system's))
PCRE2_CFLAGS := -isystem $(PCRE2)/include
PCRE2_LIBS   := -L$(PCRE2_DIR) -Wl,-rpath,$(PCRE2_DIR)
endif
LIBS        = $(DEPS_LIBS) -ldnnl -lcjson -lxxhash $(PCRE2_LIBS) -lpcre2-8 -lutf8proc -lzstd -lz $(call abi_checked,$(MPI_LIBS)) $(OMP) -lm -lpthread
# ccache works on single files, so programs are compiled and linked in two steps.
ifeq ($(origin CCACHE),undefined)
CCACHE     := $(if $(findstring ccache,$(CC)),,$(shell command -v ccache))
endif
COMPILE     = $(CCACHE) $(CC) $(ALL_CFLAGS) $(WERROR) -MMD -MP -MT $@ -MF $@.d

VERSION  := $(shell sed -n 's/.*define TRINE_VERSION "\(.*\)"/\1/p' include/trine.h)
MAJOR    := $(firstword $(subst ., ,$(VERSION)))
LIB      := $(BUILD)/libtrine.a
SHARED   := $(BUILD)/libtrine.so.$(VERSION)
# Files in a folder named element are compiled once for each pair of element types, compute_gradients.
PAIRS    := f32_f32 bf16_f32 bf16_bf16 f16_f32 f16_f16
SOURCES  := $(sort $(shell find src -name '[!.]*.c'))
ELEMENT  := $(foreach c,$(SOURCES),$(if $(findstring /element/,$c),$c))
# objects FOLDER,SOURCES
objects   = $(patsubst src/%.c,$(1)/%.o,$(filter-out $(ELEMENT),$(2))) \
            $(foreach pair,$(PAIRS),$(patsubst src/%.c,$(1)/%.$(pair).o,$(filter $(ELEMENT),$(2))))
# The loops over numbers: all of the operators but what calls oneDNN or chooses, and what adds.
KERNELS  := $(filter-out %/dnnl.c %/cpu_isa.c %/cpu_level.c,$(filter src/device/cpu/%,$(SOURCES))) \
            $(addprefix src/comm/reduce/,additions.c half.c tree.c)
OBJ      := $(call objects,$(BUILD)/obj,$(if $(LEVELS),$(filter-out $(KERNELS),$(SOURCES)),$(SOURCES))) \
            $(LEVELS:%=$(BUILD)/level/%.o)
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(wildcard examples/*.c))
# tools/trine_tokens.c becomes build/trine-tokens: C has the underscore, commands have the dash.
TOOLS    := $(addprefix $(BUILD)/,$(subst _,-,$(patsubst tools/%.c,%,$(wildcard tools/*.c))))
TESTS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*/*.c))
TEST_OBJ := $(TESTS:%=%.o)
HARNESS  := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/*.c))
# Tests use internals, so libtrine.so, which exports only trine_*, is not enough; each with a copy of the archive would
# take 2 GB.
TESTED   := $(BUILD)/tests/libtrine_tested.so
# A file of bench/ with a header is shared by the programs, one without is a program.
BENCH_PARTS := $(patsubst bench/%.h,$(BUILD)/bench/%.o,$(wildcard bench/*.h))
BENCHES  := $(filter-out $(BENCH_PARTS:.o=),$(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c)))

.PHONY: all compile tests benches bench bench-comm cuda cuda-object layers deps check check-full check-alone check-outside test mutants coverage fuzz fuzzers demo install installable man uninstall dist dist-binary abi-now abi-record abi-check format-check clean FORCE
.DELETE_ON_ERROR:
PRODUCTS := $(LIB) $(SHARED) $(EXAMPLES) $(TOOLS) $(BUILD)/hardware
all: $(PRODUCTS) cuda
tests: $(TESTS) benches
benches: $(BENCHES)

# ---- Building ------------------------------------------------------------------------------------

# Programs look for the machines' files beside themselves (src/cost/hardware.c), wherever BUILD is.
$(BUILD)/hardware:
	@mkdir -p $(BUILD) && ln -sfn "$$(realpath --relative-to=$(BUILD) hardware)" $@

# A recipe has $(call line,WHAT,FILE) on the line above its command and $(Q) before the command. Warnings are
# always shown; make -s prints neither lines nor commands.
Q     := $(if $(filter 1,$(V)),,@)
silent = $(or $(filter 1,$(V)),$(findstring s,$(firstword -$(MAKEFLAGS))))
line   = $(if $(silent),,@printf '  %-4s  %s\n' $(1) '$(2)')

# Changed flags rebuild everything: objects with and without sanitizers must not be mixed.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(built_with)' | cmp -s - $@ || echo '$(built_with)' >$@
built_with = $(CC) $(ALL_CFLAGS)$(foreach level,$(LEVELS),; $(LEVEL_$(level)))

$(BUILD)/obj/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call line,CC,$<)
	$(Q)$(COMPILE) $(if $(filter src/comm/%,$<),$(MPI_CFLAGS)) -c $< -o $@

$(BUILD)/obj/base/processor.o: src/base/processor.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call line,CC,$<)
	$(Q)$(filter-out -march=%,$(COMPILE)) $(BASELINE) -c $< -o $@

# FOLDER,PAIR,LEVEL: src/device/cpu/element/element.h uses ELEMENT and GRAD.
at_level = $(if $(1),$(LEVEL_$(1)) -fno-lto -DLEVEL=$(1))
define PAIR
$(1)/%.$(2).o: src/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call line,CC,$$< $(subst _, ,$(2)) $(3))
	$$(Q)$$(COMPILE) $(call at_level,$(3)) -DELEMENT=$(firstword $(subst _, ,$(2))) -DGRAD=$(lastword $(subst _, ,$(2))) -c $$< -o $$@
endef
$(foreach pair,$(PAIRS),$(eval $(call PAIR,$(BUILD)/obj,$(pair))))

# One object for each level, of which only the tables are seen from outside.
OBJCOPY ?= objcopy
TABLES  := cpu_kernels reduce_kernels
define KERNELS_OF
$(BUILD)/level/$(1)/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call line,CC,$$< $(1))
	$$(Q)$$(COMPILE) $(call at_level,$(1)) $$(if $$(filter src/comm/%,$$<),$$(MPI_CFLAGS)) -c $$< -o $$@
$(BUILD)/level/$(1).o: $(call objects,$(BUILD)/level/$(1),$(KERNELS))
	$$(call line,LD,$$@)
	$$(Q)$$(CC) -r -nostdlib -fno-lto -o $$@ $$^
	$$(Q)$$(OBJCOPY) $(TABLES:%=--keep-global-symbol=%_$(1)) $$@
endef
$(foreach level,$(LEVELS),$(eval $(call KERNELS_OF,$(level))))
$(foreach level,$(LEVELS),$(foreach pair,$(PAIRS),$(eval $(call PAIR,$(BUILD)/level/$(level),$(pair),$(level)))))

$(LIB): $(OBJ)
	@rm -f $@
	$(call line,AR,$@)
	$(Q)ar rcs $@ $^

$(TESTED): $(OBJ)
	@mkdir -p $(@D)
	$(call line,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -o $@ $(OBJ) $(LIBS) $(SAN)

# The shared library exports only trine_*, with a version for the loader and the makers of packages.
$(SHARED): $(OBJ) tools/libtrine.map
	$(call line,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libtrine.so.$(MAJOR) -Wl,--version-script=tools/libtrine.map -o $@ $(OBJ) $(LDFLAGS) $(LIBS) $(SAN)

# The one that calls MPI itself.
$(BUILD)/coupled: EXAMPLE_FLAGS = $(MPI_CFLAGS)
$(BUILD)/%: examples/%.c $(LIB)
	$(call line,CCLD,$@)
	$(Q)$(COMPILE) $(EXAMPLE_FLAGS) $< -o $@ $(LIB) $(LDFLAGS) $(LIBS)

# The files of trine-report's page. Curves are drawn by dygraphs, which is taken from where it is installed, with its
# licence; without it the program is built without curves, and says so.
DYGRAPHS ?= $(wildcard /usr/share/javascript/dygraphs/dygraph.min.js)
DYGRAPHS_CSS     := $(firstword $(wildcard $(DYGRAPHS:.js=.css) $(dir $(DYGRAPHS))dygraph.css))
DYGRAPHS_LICENCE := $(firstword $(wildcard $(dir $(DYGRAPHS))LICENSE.txt $(dir $(DYGRAPHS))../LICENSE.txt \
                    /usr/share/doc/libjs-dygraphs/copyright))
ifneq ($(DYGRAPHS),)
$(foreach f,$(DYGRAPHS) $(DYGRAPHS_CSS) $(DYGRAPHS_LICENCE),$(if $(wildcard $f),,$(error DYGRAPHS=$f: no such file)))
$(if $(DYGRAPHS_CSS),,$(error DYGRAPHS=$(DYGRAPHS): no dygraph.css beside it))
$(if $(DYGRAPHS_LICENCE),,$(error DYGRAPHS=$(DYGRAPHS): no LICENSE.txt beside it, which the pages must contain))
DYGRAPHS_FILES := -DDYGRAPHS_JS='"$(DYGRAPHS)"' -DDYGRAPHS_CSS='"$(DYGRAPHS_CSS)"' -DDYGRAPHS_LICENCE='"$(DYGRAPHS_LICENCE)"'
endif
PAGE     := $(BUILD)/report/page.o
PAGE_CC  := $(CC) -DPAGE_JS='"tools/report/page.js"' -DPAGE_CSS='"tools/report/page.css"' $(DYGRAPHS_FILES)
with_page = $(if $(filter %trine-report,$(1)),$(PAGE))

$(BUILD)/report/flags: FORCE
	@mkdir -p $(@D)
	@echo "$(subst ",',$(PAGE_CC))" | cmp -s - $@ || echo "$(subst ",',$(PAGE_CC))" >$@

$(PAGE): tools/report/embed.S tools/report/page.js tools/report/page.css $(DYGRAPHS) $(BUILD)/report/flags
	$(call line,AS,$<)
	$(Q)$(PAGE_CC) -c $< -o $@

.SECONDEXPANSION:
$(TOOLS): $(BUILD)/%: tools/$$(subst -,_,$$*).c $$(call with_page,$$@) $(LIB)
	$(call line,CCLD,$@)
	$(Q)$(COMPILE) $< -o $@ $(call with_page,$@) $(LIB) $(LDFLAGS) $(LIBS)

# Not -O3: the tables of tests/ops take eight seconds a file to compile with it, one with -O2, and run no faster.
$(HARNESS) $(TEST_OBJ): $(BUILD)/tests/%.o: tests/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call line,CC,$<)
	$(Q)$(patsubst -O3,-O2,$(COMPILE)) $(MPI_CFLAGS) $(TEST_INCLUDES) -Itests -c $< -o $@

# Found beside the program's folder, wherever the build is. A program needs no new link when the library changes: it has
# no copies of the library's variables (-fPIC), and what it includes is in its .d file.
LINK_TESTED = $(TESTED) -Wl,-rpath,'$$ORIGIN/..' -lcmocka $(LIBS)
$(TESTS): %: %.o $(HARNESS) | $(TESTED)
	$(call line,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(filter %.o,$^) -o $@ $(LINK_TESTED) $(TEST_LIBS)

# The only tests that use files of bench/, and those that are linked with the emulated GPU and with kernels.
$(BUILD)/tests/bench/%: TEST_INCLUDES = -Ibench
$(filter $(BUILD)/tests/bench/%,$(TESTS)): $(BENCH_PARTS)
$(BUILD)/tests/emu/%: TEST_INCLUDES = -Iemu
$(BUILD)/tests/emu/%: TEST_LIBS = -lstdc++

# The protocols of shared memory under ThreadSanitizer, which knows no fences (docs/memory-order.md).
TSAN     := $(if $(SAN),,-fsanitize=thread)
RACE_OBJ := $(patsubst src/%.c,$(BUILD)/tsan/%.o,$(filter src/comm/transport/shm/% src/comm/reduce/%,$(SOURCES)))
RACE_TEST := $(BUILD)/tests/comm/shm_order_driver
$(RACE_OBJ): $(BUILD)/tsan/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call line,CC,$< with $(TSAN))
	$(Q)$(COMPILE) $(TSAN) $(if $(TSAN),-Wno-unknown-warning-option -Wno-tsan) $(MPI_CFLAGS) -c $< -o $@
$(RACE_TEST).o: TEST_INCLUDES = $(TSAN)
$(RACE_TEST): TEST_LIBS = $(TSAN)
$(RACE_TEST): $(RACE_OBJ)

$(BENCH_PARTS): $(BUILD)/bench/%.o: bench/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call line,CC,$<)
	$(Q)$(COMPILE) $(MPI_CFLAGS) -Ibench -c $< -o $@

$(BUILD)/bench/%: bench/%.c $(BENCH_PARTS) $(LIB)
	@mkdir -p $(@D)
	$(call line,CCLD,$@)
	$(Q)$(COMPILE) $(MPI_CFLAGS) -Ibench $< -o $@ $(BENCH_PARTS) $(LIB) $(LIBS)

# ---- The CUDA object -----------------------------------------------------------------------------

# If CUDA is found, this file is read again with the variables of tools/cuda.sh: CUDA_NVCC, CUDA_ARCH, ...
cuda:
	@CUDA_SM='$(CUDA_SM)' tools/cuda.sh $(BUILD) '$(CUDA)'
	@$(MAKE) --no-print-directory PROBED=yes cuda-object

ifdef PROBED
include $(BUILD)/cuda.mk
endif
CUDA_LIB  := $(BUILD)/libtrine_cuda.so
cuda-object: $(if $(CUDA_NVCC),$(CUDA_LIB))

# cuda_files WITH: the sources of the object, with the NCCL transport or its stub (absent.cu).
CUDA_FILES := $(sort $(shell find src -name '[!.]*.cu'))
WITH_NCCL  := $(filter-out %/absent.cu,$(filter src/comm/%,$(CUDA_FILES)))
cuda_files  = $(filter-out $(if $(1),%/absent.cu,$(WITH_NCCL)),$(CUDA_FILES))
CUDA_OBJ  := $(patsubst src/%.cu,$(BUILD)/cuda/%.o,$(call cuda_files,$(CUDA_NCCL)))
NVCCFLAGS ?= -O3 -lineinfo
# As with FLOAT: contraction in one kernel and not in its variant (four elements at a time, single elements)
# would give different bits. Kernels call fmaf where they want it.
NVCC_ALL   = $(or $(CUDA_NVCC),$(error the CUDA object is built by `make cuda`, which looks for nvcc)) -std=c++17 -fmad=false -Xptxas=-v $(CUDA_ARCH) $(NVCCFLAGS) -Xcompiler=-fPIC,-Wall,-Wextra -Isrc -Iinclude $(NCCL_FLAGS)

$(BUILD)/cuda/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC_ALL)' | cmp -s - $@ || echo '$(NVCC_ALL)' >$@

# FILE.o.ptxas: what ptxas says of each kernel's registers and spills, for tests/build/spills.t. All else is printed.
$(CUDA_OBJ): $(BUILD)/cuda/%.o: src/%.cu $(BUILD)/cuda/flags
	@mkdir -p $(@D)
	$(call line,NVCC,$<)
	$(Q)$(NVCC_ALL) $(if $(WERROR),-Werror=all-warnings) -MMD -MP -MT $@ -MF $@.d -c $< -o $@ \
	    2>$@.ptxas; status=$$?; grep -v -e '^ptxas info' -e '^  *[0-9]* bytes stack frame,' $@.ptxas >&2; exit $$status

# It exports one function and has no undefined symbols: libtrine is not linked to it. It opens NCCL at run time.
$(CUDA_LIB): $(CUDA_OBJ) tools/libtrine_cuda.map
	$(call line,LD,$@)
	$(Q)$(CUDA_NVCC) -shared -cudart static $(CUDA_ARCH) $(CUDA_RPATH) -o $@ $(CUDA_OBJ) -lcublasLt \
	    -Xlinker=--no-undefined,-soname=libtrine_cuda.so,--version-script=tools/libtrine_cuda.map

# ---- The emulated GPU, for tests -----------------------------------------------------------------

# Misaligned accesses and indices outside of an array trap. A sanitized build finds more.
EMU_CHECKS  := $(if $(findstring sanitize,$(SAN)),,-fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error)
# Not -O3: unrolled kernels with a check at every access take minutes to compile, and run no faster.
EMU_FLAGS   := -std=c++17 -D_GNU_SOURCE -Wall -Wextra -fPIC -Wno-unknown-pragmas -fno-strict-aliasing $(patsubst -O3,-O2,$(CFLAGS)) \
               $(FLOAT) -Iemu -Isrc -Iinclude $(SAN)
# RACES=1: kernels call emu/races.cc at each access (docs/testing.md).
EMU_KERNEL   := $(EMU_CHECKS) $(if $(RACES),-fsanitize=thread)
EMU_COMPILE  = $(CCACHE) $(CXX) -x c++ $(EMU_FLAGS) $(WERROR) -MMD -MP -MT $@ -MF $@.d
EMU_LIB     := $(BUILD)/emu/libtrine_cuda.so
EMU_NCCL    := $(BUILD)/emu/libnccl_emu.so
EMU_OBJ     := $(patsubst emu/%.cc,$(BUILD)/emu/%.o,$(wildcard emu/*.cc))
EMU_CUDA    := $(patsubst src/%.cu,$(BUILD)/emu/%.o,$(call cuda_files,$(wildcard emu/nccl.h)))
EMU_KERNELS := $(patsubst tests/%.cu,$(BUILD)/tests/%.o,$(wildcard tests/emu/*.cu))

$(BUILD)/emu/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CXX) $(EMU_FLAGS) $(EMU_KERNEL)' | cmp -s - $@ || echo '$(CXX) $(EMU_FLAGS) $(EMU_KERNEL)' >$@

$(EMU_CUDA): $(BUILD)/emu/%.o: src/%.cu $(BUILD)/emu/flags
	@mkdir -p $(@D)
	$(call line,EMU,$<)
	$(Q)$(EMU_COMPILE) $(EMU_KERNEL) -c $< -o $@

# These always do, but under other sanitizers, which exclude this one.
$(EMU_KERNELS): EMU_KERNEL := $(EMU_CHECKS) $(if $(SAN),,-fsanitize=thread)
$(EMU_KERNELS): $(BUILD)/tests/%.o: tests/%.cu $(BUILD)/emu/flags
	@mkdir -p $(@D)
	$(call line,EMU,$<)
	$(Q)$(EMU_COMPILE) $(EMU_KERNEL) -c $< -o $@

$(EMU_OBJ): $(BUILD)/emu/%.o: emu/%.cc $(BUILD)/emu/flags
	$(call line,EMU,$<)
	$(Q)$(EMU_COMPILE) $(if $(findstring nccl,$<),$(MPI_CFLAGS)) -c $< -o $@

# --no-undefined is left out with sanitizers: Clang keeps their functions in the program. Libraries opened by name
# are found beside the object whatever LD_LIBRARY_PATH is (RPATH, not RUNPATH).
EMU_SHARED   = $(CXX) -shared $(if $(SAN),,-Wl,--no-undefined) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN',-soname=$(@F)
$(EMU_LIB): $(EMU_CUDA) $(filter-out %/nccl.o,$(EMU_OBJ)) emu/libtrine_cuda.map
	$(call line,LD,$@)
	$(Q)$(EMU_SHARED) -Wl,--version-script=emu/libtrine_cuda.map -o $@ $(filter %.o,$^) -lm -lpthread $(SAN)

$(EMU_NCCL): $(BUILD)/emu/nccl.o $(EMU_LIB) emu/libnccl_emu.map
	$(call line,LD,$@)
	$(Q)$(EMU_SHARED) -Wl,--version-script=emu/libnccl_emu.map -o $@ $(filter %.o %.so,$^) $(MPI_LIBS) $(SAN)

# Tests may open the object.
$(TESTS): | $(EMU_LIB) $(EMU_NCCL)
$(filter $(BUILD)/tests/emu/%,$(TESTS)): $(EMU_OBJ) $(EMU_KERNELS)

# ---- Checking ------------------------------------------------------------------------------------

# make compile FILES="src/base/rng.c tests/tp/linear.c": their objects only.
of_source = $(1:src/%=$(BUILD)/obj/%.o) $(1:src/%=$(BUILD)/obj/%.%.o) $(1:src/%=$(BUILD)/emu/%.o) $(1:tests/%=$(BUILD)/tests/%.o)
compile: $(filter $(foreach f,$(basename $(FILES)),$(call of_source,$f)),$(OBJ) $(EMU_CUDA) $(TEST_OBJ) $(HARNESS))

layers: $(OBJ)
	@tools/layers.sh . $(BUILD)

# These install packages first, and then read this file again: see MPI_CFLAGS.
# The CUDA object takes minutes and is tested where there is a GPU, or by CUDA=1.
GPU := $(wildcard /proc/driver/nvidia/gpus/* /dev/nvidia0 /dev/dxg)
check check-full:
	@tools/deps.sh build test $(if $(filter check-full,$@),full)
	@$(MAKE) --no-print-directory $(PRODUCTS) tests layers $(if $(or $(GPU),$(DEVICE),$(filter 1,$(CUDA))),cuda)
	$(if $(filter check-full,$@),tests/full.sh $(BUILD) $(PART),$(ON_DEVICE) tests/run.sh $(BUILD) $(or $(WHICH),all))

# make check DEVICE=cuda: the tests that use a GPU, with the object that nvcc built.
ifeq ($(DEVICE),cuda)
check: WHICH = device
check: ON_DEVICE = TRINE_CUDA_LIBRARY=$(abspath $(or $(CUDA_LIBRARY),$(BUILD)/libtrine_cuda.so))
endif

# The single-process tests, for the sanitizers.
check-alone: tests
	tests/run.sh $(BUILD) alone

# Comparisons with other programs, which PyPI has.
check-outside:
	@tools/deps.sh build test report $(if $(TRINE_PYTHON),,outside)
	@$(MAKE) --no-print-directory $(PRODUCTS) $(BUILD)/tests/ckpt/logits_driver $(BUILD)/tests/tokenizer/driver
	@tests/outside/run.sh $(BUILD)

# Scripts use any program, and those that only they run. A C test needs none of them.
SCRIPTS := $(if $(T),$(wildcard $(T:%=tests/%.t) $(T:%=tests/%/*.t)),all)
ifdef CHANGED
test: layers
	@chosen=$$(tests/changed.sh $(BUILD)) && \
	    if [ -n "$$chosen" ]; then $(MAKE) --no-print-directory test CHANGED= T="$$(echo $$chosen)"; fi
else
test: $(if $(SCRIPTS),$(PRODUCTS) benches $(filter %_driver,$(TESTS))) \
      $(if $(T),$(filter $(T:%=$(BUILD)/tests/%) $(T:%=$(BUILD)/tests/%/%),$(TESTS)),$(TESTS))
	@tests/run.sh $(BUILD) all $(T)
endif

# Mutation tests: can the tests fail?
mutants:
	@tools/deps.sh build test
	@tools/mutants.sh $(BUILD) $(M)

# Which test executes which line; T: only these tests anew.
coverage:
	@tools/deps.sh build test
	@tools/coverage.sh $(BUILD) $(T)

# The programs of tests/fuzz under libFuzzer, in a separate build with Clang. Inputs that reach new code are kept
# in build-fuzz/corpus, failing ones in build-fuzz/.
FUZZERS := $(if $(T),$(T),$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
MINUTES ?= 1

# The page's fuzzer is a script: mutated logs and traces for build/trine-report, and its pages in Chromium.
ifeq ($(T),page)
fuzz:
	@tools/deps.sh build report
	@$(MAKE) --no-print-directory $(BUILD)/trine-report
	@BUILD='$(BUILD)' TRINE_MINUTES='$(MINUTES)' TRINE_SEED="$${TRINE_SEED:-$$(date +%s)}" tests/report/fuzz.t
else
fuzz:
	@tools/deps.sh build clang
	@$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz WERROR= OPT="-O1 -march=native -fno-omit-frame-pointer -Wno-pass-failed" \
	    SAN="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" T='$(T)' MINUTES='$(MINUTES)' fuzzers
endif

fuzzers: $(FUZZERS:%=$(BUILD)/fuzz/%)
	@set -e; for t in $(FUZZERS); do \
	    mkdir -p $(BUILD)/corpus/$$t; \
	    $(BUILD)/fuzz/$$t -max_total_time=$$(($(MINUTES) * 60)) -max_len=65536 -timeout=10 -malloc_limit_mb=16 \
	        -len_control=10 -use_value_profile=1 -print_final_stats=1 -dict=tests/fuzz/json.dict \
	        -artifact_prefix=$(BUILD)/ $(BUILD)/corpus/$$t tests/fuzz/corpus/$$t; \
	done

$(BUILD)/fuzz/%: tests/fuzz/%.c $(LIB)
	@mkdir -p $(@D)
	$(call line,CCLD,$@)
	$(Q)$(COMPILE) -DFUZZING -fsanitize=fuzzer -Itests $< -o $@ $(LIB) $(LIBS)

# Headers are aligned by hand.
format-check:
	clang-format --dry-run -Werror $$(git ls-files '*.c' '*.cu' '*.cc')

# ---- Benchmarks ----------------------------------------------------------------------------------

# FLAGS are passed to the programs (build/bench/step --help).
bench:
	@tools/deps.sh build
	@$(MAKE) --no-print-directory benches $(if $(filter cuda,$(DEVICE)),cuda)
	@JSON='$(JSON)' DEVICE='$(DEVICE)' CUDA_LIBRARY='$(CUDA_LIBRARY)' \
		FLAGS='$(if $(REPS),--reps $(REPS)) $(if $(LAYERS),--num-layers $(LAYERS)) $(if $(MODEL),--model $(MODEL)) $(if $(TF32),--tf32) $(if $(BF16),--type bf16) $(FLAGS)' \
		bench/run.sh $(BUILD) $(B)

# BENCH_COMM has the program's own options.
RANKS      ?= 2 8
BENCH_COMM ?=
bench-comm:
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(BUILD)/bench/comm
	@set -e; for n in $(RANKS); do \
	    tools/mpirun.sh -np $$n $(BUILD)/bench/comm --json $(BUILD)/bench/comm-$$n.json $(BENCH_COMM); \
	done

# ---- The demo ------------------------------------------------------------------------------------

deps:
	@tools/deps.sh build test demo

DEMOS := smollm2
DEMO_USES := $(addprefix $(BUILD)/,train_gpt trine-generate trine-report trine-tokens)
demo:
	$(if $(filter-out $(DEMOS),$(MODEL)),$(error make demo: MODEL is $(DEMOS), or empty))
	@tools/deps.sh build $(if $(MODEL),$(if $(TRINE_PYTHON),,outside),demo)
	@$(MAKE) --no-print-directory $(if $(MODEL),$(PRODUCTS),$(DEMO_USES))
	$(if $(MODEL),,@BUILD=$(BUILD) tools/corpus.sh)
	@BUILD=$(BUILD) tools/demo$(if $(MODEL),_$(MODEL)).sh

# ---- Installing ----------------------------------------------------------------------------------

# GNU's directory variables; each may be set on the command line. DESTDIR is put in front of them when files are
# copied, and appears in no installed file.
prefix       = $(PREFIX)
exec_prefix  = $(prefix)
bindir       = $(exec_prefix)/bin
libdir       = $(exec_prefix)/lib
includedir   = $(prefix)/include
datarootdir  = $(prefix)/share
datadir      = $(datarootdir)
mandir       = $(datarootdir)/man
pkgconfigdir = $(libdir)/pkgconfig
cmakedir     = $(libdir)/cmake/trine
man1dir      = $(mandir)/man1
bashdir      = $(datarootdir)/bash-completion/completions

PUBLIC   := $(wildcard include/*.h)
PROGRAMS := trine-train $(notdir $(TOOLS))
HARDWARE := $(wildcard hardware/*.json)
CMAKE_FILES := trineConfig.cmake trineConfigVersion.cmake
AS_INSTALLED := $(BUILD)/install
INSTALLED := $(PUBLIC:include/%=$(includedir)/%) $(libdir)/libtrine.a $(libdir)/$(notdir $(SHARED)) \
             $(libdir)/libtrine.so.$(MAJOR) $(libdir)/libtrine.so $(libdir)/libtrine_cuda.so \
             $(pkgconfigdir)/trine.pc $(CMAKE_FILES:%=$(cmakedir)/%) $(PROGRAMS:%=$(bindir)/%) $(PROGRAMS:%=$(man1dir)/%.1) \
             $(PROGRAMS:%=$(bashdir)/%) \
             $(HARDWARE:%=$(datadir)/trine/%)

$(AS_INSTALLED)/libdir: FORCE
	@mkdir -p $(@D)
	@echo '$(libdir)' | cmp -s - $@ || echo '$(libdir)' >$@

# Programs look for libtrine_cuda.so in ../lib, and with this in libdir; programs of others that pkg-config helps to link
# find libtrine.so. RPATH= omits it.
RPATH ?= -Wl,-rpath,$(libdir)
program_source = $(if $(filter trine-train,$(1)),examples/train_gpt.c,tools/$(subst -,_,$(1)).c)
$(PROGRAMS:%=$(AS_INSTALLED)/%): $(AS_INSTALLED)/%: $$(call program_source,$$*) $$(call with_page,$$@) $(LIB) $(AS_INSTALLED)/libdir
	$(COMPILE) $< -o $@ $(call with_page,$@) $(LIB) $(LDFLAGS) $(LIBS) $(RPATH)

$(AS_INSTALLED)/%.1: $(AS_INSTALLED)/%
	$< --help=man >$@

$(AS_INSTALLED)/%.bash: $(AS_INSTALLED)/%
	$< --help=bash >$@

# Programs that were built with MARCH= for another processor cannot print their options here.
man: $(PROGRAMS:%=$(AS_INSTALLED)/%)
	@if $< --help >/dev/null; then \
	    $(MAKE) --no-print-directory $(PROGRAMS:%=$(AS_INSTALLED)/%.1) $(PROGRAMS:%=$(AS_INSTALLED)/%.bash); \
	else echo "no manual pages: the programs do not run on this machine (MARCH)"; fi

# Directories are written in terms of earlier ones, so that overriding one pkg-config variable moves them all.
below = $(patsubst $($(1))/%,$${$(1)}/%,$($(2)))
$(AS_INSTALLED)/trine.pc: tools/trine.pc.in FORCE
	@mkdir -p $(@D)
	sed -e 's|@prefix@|$(prefix)|' -e 's|@exec_prefix@|$(if $(filter $(prefix),$(exec_prefix)),$${prefix},$(exec_prefix))|' \
	    -e 's|@libdir@|$(call below,exec_prefix,libdir)|' -e 's|@includedir@|$(call below,prefix,includedir)|' \
	    -e 's|@VERSION@|$(VERSION)|' -e 's|@PRIVATE@|$(LIBS)|' -e 's|@RPATH@|$(subst $(libdir),$${libdir},$(RPATH))|' $< >$@

# The folders are said as they are seen from this one, so that all may move together.
$(CMAKE_FILES:%=$(AS_INSTALLED)/%): $(AS_INSTALLED)/%: tools/%.in FORCE
	@mkdir -p $(@D)
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@MAJOR@|$(MAJOR)|' \
	    -e 's|@LIBDIR@|$(call from_cmake,$(libdir))|' -e 's|@INCLUDEDIR@|$(call from_cmake,$(includedir))|' $< >$@
from_cmake = $(shell realpath -ms --relative-to='$(cmakedir)' '$(1)')

# What make install copies, but for the GPU's object.
installable: $(LIB) $(SHARED) $(addprefix $(AS_INSTALLED)/,trine.pc $(CMAKE_FILES) $(PROGRAMS)) man
install: installable cuda
	install -d $(addprefix $(DESTDIR),$(includedir) $(libdir) $(pkgconfigdir) $(cmakedir) $(bindir) $(man1dir) $(bashdir) \
	    $(datadir)/trine/hardware)
	install -m 644 $(HARDWARE) $(DESTDIR)$(datadir)/trine/hardware/
	install -m 644 $(PUBLIC) $(DESTDIR)$(includedir)/
	install -m 644 $(LIB) $(SHARED) $(DESTDIR)$(libdir)/
	if grep -q CUDA_NVCC $(BUILD)/cuda.mk; then install -m 644 $(CUDA_LIB) $(DESTDIR)$(libdir)/; fi
	ln -sf libtrine.so.$(VERSION) $(DESTDIR)$(libdir)/libtrine.so.$(MAJOR)
	ln -sf libtrine.so.$(MAJOR) $(DESTDIR)$(libdir)/libtrine.so
	install -m 644 $(AS_INSTALLED)/trine.pc $(DESTDIR)$(pkgconfigdir)/
	install -m 644 $(CMAKE_FILES:%=$(AS_INSTALLED)/%) $(DESTDIR)$(cmakedir)/
	install -m 755 $(PROGRAMS:%=$(AS_INSTALLED)/%) $(DESTDIR)$(bindir)/
	for page in $(PROGRAMS:%=$(AS_INSTALLED)/%.1); do \
	    if [ -e $$page ]; then install -m 644 $$page $(DESTDIR)$(man1dir)/; fi; \
	done
	for program in $(PROGRAMS); do \
	    script=$(AS_INSTALLED)/$$program.bash; \
	    if [ -e $$script ]; then install -m 644 $$script $(DESTDIR)$(bashdir)/$$program; fi; \
	done

uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))

# ---- Releases ------------------------------------------------------------------------------------

# The commit decides every byte: neither a user's settings of git, nor the time, nor the name of the clone.
DIST := $(BUILD)/trine-$(VERSION).tar.gz
dist:
	@git rev-parse --verify --quiet HEAD >/dev/null || { echo "make dist: no commit here; it needs a clone of git" >&2; exit 1; }
	@test -z "$$(git status --porcelain)" || { echo "make dist: changes that are not committed:" >&2; git status --short >&2; exit 1; }
	@mkdir -p $(BUILD)
	git -c core.autocrlf=false -c tar.umask=0022 archive --format=tar --prefix=trine-$(VERSION)/ HEAD >$(DIST:.gz=)
	gzip -n -9 -f $(DIST:.gz=)
	@sha256sum $(DIST)

# Programs and what they load, but for the C library and MPI. RPATH, not RUNPATH: also of the libraries' own libraries.
# MPI's folder is left out: whoever runs them says where his is.
comma := ,
BINARY_MARCH ?= any
dist-binary: MPI_ABI := 1
dist-binary:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/binary MPI_ABI=1 MARCH=$(BINARY_MARCH) CUDA=0 DESTDIR=$(BUILD)/binary/stage \
	    prefix=/ MPI_LIBS="$(filter-out -Wl$(comma)%,$(MPI_LIBS))" RPATH="-Wl,--disable-new-dtags,-rpath,'\$$\$$ORIGIN/../lib'" install
	tools/dist_binary.sh $(BUILD)/binary $(VERSION) $(BINARY_MARCH) $(BUILD)

# The public functions and types of the shared library, by libabigail. A release that removes or changes one of the last
# release raises the major number, and with it the name of the library (docs/install.md, "Releases").
ABI      ?= packaging/abi/libtrine.so.$(MAJOR).xml
ABI_OF   ?= $(SHARED)
ABI_NOW  := $(BUILD)/abi.xml
abi-now: $(ABI_OF)
	@command -v abidw >/dev/null || { echo "abidw not found: Debian has it in abigail-tools" >&2; exit 1; }
	@abidw --exported-interfaces-only --headers-dir include --drop-private-types --drop-undefined-syms --no-elf-needed \
	    --no-architecture --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --type-id-style hash \
	    --out-file $(ABI_NOW) $(ABI_OF)
abi-record: abi-now
	cp $(ABI_NOW) $(ABI)
abi-check: abi-now
	abidiff --no-added-syms $(ABI) $(ABI_NOW)

clean:
	rm -rf $(BUILD)

-include $(patsubst %,%.d,$(OBJ) $(foreach l,$(LEVELS),$(call objects,$(BUILD)/level/$(l),$(KERNELS))) $(HARNESS) $(TEST_OBJ) $(EXAMPLES) $(TOOLS) $(BENCH_PARTS) $(BENCHES) \
    $(PROGRAMS:%=$(AS_INSTALLED)/%) \
    $(RACE_OBJ) $(EMU_OBJ) $(EMU_CUDA) $(EMU_KERNELS) $(CUDA_OBJ))
