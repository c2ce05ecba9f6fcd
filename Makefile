# make                    build/cpu-release/run, linked to ./run
# make BACKEND=reference  the plain backend; make debug: the same with -O0 -g3
# make test               what every change is to pass; make check: the part that takes minutes
# make test-all           each test in every build that this machine can make
# make fidelity           family x container x backend: how far each is off the reference
# make exhaustive         conversions, functions and scale rules on all of their inputs
# make core               libc alone: no libraries, GGUF and .bin files only; make aarch64: that, cross compiled
# make BACKEND=cuda       for NVIDIA GPUs (nvcc 13); EMULATED=1: the same files on the CPU, for tests
# make lib                liblimpid.a, liblimpid.so.0 and limpid.pc, for limpid.h; make examples
# make install PREFIX=    limpid, its manual page, completion and gdb commands, and the library; make uninstall; make deb
#                         (each with the switches that built: with others they build anew)
# make MPI=1              layers over several processes, with Open MPI (docs/scale.md)
# Switches: BUILTIN=0 without the built-in model, JSON=0 without jansson, PCRE2=0 without PCRE2 and utf8proc,
#           PNG=0 without libpng and zlib, EDIT=0 without libedit, CC=clang, CFLAGS=..., V=1 shows commands
# make help: these lines
BACKEND ?= cpu
VARIANT ?= release
JSON ?= 1
PCRE2 ?= 1
PNG ?= 1
EDIT ?= 1
BUILTIN ?= 1
MPI ?= 0
PREFIX ?= /usr/local
PYTHON ?= /usr/bin/python3
CFLAGS ?= -O3 -g
# EMULATED=1: more flags for kernels/cuda and the emulator, sanitizers for instance (and in LDFLAGS).
KERNEL_FLAGS ?=
PLAIN ?= 0
EMULATED ?= 0
CROSS ?= 0
ifeq ($(wildcard kernels/$(BACKEND)/device.c*),)
$(error no backend $(BACKEND): cpu, reference or cuda)
endif
$(foreach switch,JSON PCRE2 PNG EDIT BUILTIN MPI PLAIN EMULATED CROSS,$(if $(filter-out 0 1,$($(switch))),\
    $(error $(switch)=$($(switch)): wanted 0 or 1)))
ifeq ($(MPI),1)
override VARIANT := $(VARIANT)-mpi
endif
ifeq ($(EMULATED),1)
override VARIANT := $(patsubst %-release,%,emulated-$(VARIANT))
endif

BUILD := build/$(BACKEND)-$(VARIANT)

# ---- sources ----
# A room is a folder, with the folders in it. A file that needs a library has a twin
# without_LIBRARY.c that refuses in one line; tokenizer/without_libraries.c is that for its room.
room = $(wildcard $(1)/*.$(2) $(1)/*/*.$(2))
JSON_SOURCES := base/json.c weights/out/hf.c \
                $(filter-out %/safetensors.c,$(wildcard weights/hf/*.c)) \
                $(wildcard tokenizer/files/*json*.c) $(wildcard grammar/json_*.c) commands/replay/read.c \
                $(wildcard commands/prompts/*.c)
PCRE2_SOURCES := tokenizer/split/pretokenize.c tokenizer/split/nfc.c
TWINS := $(wildcard base/transport/without_*.c weights/without_*.c weights/*/without_*.c pictures/without_*.c commands/*/without_*.c)

SOURCES := $(wildcard pictures/*.c) $(foreach r,base commands library weights tokenizer grammar,$(call room,$(r),c)) \
           $(wildcard model/*.c model/*/*.c kernels/*.c kernels/$(BACKEND)/*.c)
SOURCES := $(filter-out $(TWINS),$(SOURCES))
LIBS := -lm -pthread
ifeq ($(JSON),1)
LIBS += -ljansson
else
SOURCES := $(filter-out $(JSON_SOURCES),$(SOURCES)) $(filter %/without_json.c,$(TWINS))
ABSENT += -DWITHOUT_JSON
endif
ifeq ($(PCRE2),1)
LIBS += -lpcre2-8 -lutf8proc
else
SOURCES := $(filter-out $(PCRE2_SOURCES),$(SOURCES))
ABSENT += -DWITHOUT_PCRE2
endif
ifeq ($(PNG),1)
LIBS += -lpng -lz
else
SOURCES := $(filter-out pictures/png.c,$(SOURCES)) pictures/without_png.c
endif
ifeq ($(EDIT),1)
LIBS += -ledit
else
SOURCES := $(filter-out commands/chat/line_editor.c,$(SOURCES)) commands/chat/without_libedit.c
endif
# MPICC says what a program needs; nothing else of MPI is in the build.
ifeq ($(MPI),1)
MPICC ?= mpicc
MPI_FLAGS := $(shell $(MPICC) --showme:compile 2>/dev/null)
MPI_LIBS := $(shell $(MPICC) --showme:link 2>/dev/null)
$(if $(MPI_LIBS),,$(error MPI=1 wants the mpicc of Open MPI, and $(MPICC) is not: apt install libopenmpi-dev))
LIBS += $(MPI_LIBS)
$(BUILD)/base/transport/mpi.o: REQUIRED += $(MPI_FLAGS)
else
SOURCES := $(filter-out base/transport/mpi.c,$(SOURCES)) base/transport/without_mpi.c
endif
EMBEDDED := $(BUILD)/pictures/page.o
ifeq ($(BUILTIN),1)
EMBEDDED += $(BUILD)/weights/embedded.o
else
ABSENT += -DWITHOUT_BUILTIN
endif

# kernels/cpu/lanes/*.c are compiled once per instruction set; the choice is made at start.
ISAS := portable
FLAGS_portable :=
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ifeq ($(MACHINE),x86_64)
ISAS += avx2 avx512
FLAGS_avx2 := -mavx2 -mfma -mf16c
# gcc knows AMX since version 11.
AMX := $(shell $(CC) -mamx-tile -mamx-int8 -fsyntax-only -x c /dev/null 2>/dev/null && echo -mamx-tile -mamx-int8 -DWITH_AMX)
FLAGS_avx512 := -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 $(AMX)
endif
ifeq ($(MACHINE),aarch64)
ISAS += neon dotprod i8mm
FLAGS_portable := -Wno-uninitialized # gcc 12 thinks so of `f ? sums[t] : zero` in project_tile.c
FLAGS_neon := -march=armv8-a
FLAGS_dotprod := -march=armv8.2-a+dotprod
FLAGS_i8mm := -march=armv8.2-a+dotprod+i8mm
endif
LANES := $(wildcard kernels/$(BACKEND)/lanes/*.c)

# kernels/cuda: nvcc for the GPUs of today and, as PTX, those to come; or any C++ compiler with
# tests/cuda/cuda_runtime.h in place of the CUDA runtime.
ifeq ($(BACKEND),cuda)
CUDA_HOME ?= /usr/local/cuda
NVCC ?= $(CUDA_HOME)/bin/nvcc
CU_SOURCES := $(call room,kernels/cuda,cu)
SOURCES := $(filter-out kernels/host.c,$(SOURCES))
LIBS += -lstdc++
ifeq ($(EMULATED),1)
CXX_SOURCES := $(wildcard tests/cuda/*.cpp tests/ptx/*.cpp)
CU_SOURCES += $(wildcard tests/cuda/*.cu)
else
NVCC_FLAGS ?= -O3
# In rising order. Code of one major version runs on later GPUs of that version alone; all others find
# PTX: the last one's, with all that is new in it, or the first one's (Jetsons take no other code).
GPU_ARCHS ?= 80 89 90 100 120
GPU_PTX := $(sort $(firstword $(GPU_ARCHS)) $(lastword $(GPU_ARCHS)))
GPU_CODE := $(foreach a,$(GPU_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
            $(foreach a,$(GPU_PTX),-gencode arch=compute_$(a),code=compute_$(a)) \
            -DLEAST_GPU=$(firstword $(GPU_ARCHS))
LIBS += -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt
endif
endif

OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(CXX_SOURCES:%.cpp=$(BUILD)/%.o) $(CU_SOURCES:%.cu=$(BUILD)/%.o) \
           $(foreach isa,$(ISAS),$(LANES:%.c=$(BUILD)/%.$(isa).o)) $(EMBEDDED)
# The objects that the switches above change. All others are the same with any switch and, outside kernels/, any backend:
# ALIKE=build/cpu-release links those of that build, which has to be there, and compiles none of them again.
# ALIKE_ROOMS="commands pictures": of these folders alone.
SWITCHED := tokenizer/without_libraries.o weights/checkpoint.o commands/replay.o commands/generate.o commands/merge.o \
            commands/chat/save.o library/grammar.o
ifneq ($(ALIKE),)
OWN := $(EMBEDDED) $(addprefix $(BUILD)/,$(SWITCHED) base/transport/mpi.o base/sandbox.o $(TWINS:.c=.o))
OWN += $(if $(filter build/$(BACKEND)-%,$(ALIKE)),,$(filter $(BUILD)/kernels/$(BACKEND)/% $(BUILD)/tests/%,$(OBJECTS)))
TAKEN := $(filter-out $(OWN),$(if $(ALIKE_ROOMS),$(filter $(ALIKE_ROOMS:%=$(BUILD)/%/%),$(OBJECTS)),$(OBJECTS)))
OBJECTS := $(filter-out $(TAKEN),$(OBJECTS)) $(TAKEN:$(BUILD)/%=$(ALIKE)/%)
endif
TEST_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(call room,tests/support,c))
# tests/ mirrors the rooms. A test that only one backend can have says so by its name or its room.
TEST_SOURCES := $(wildcard tests/*/test_*.c training/tests/test_*.c)
ifneq ($(BACKEND),cpu)
TEST_SOURCES := $(filter-out tests/kernels/test_cpu_%.c,$(TEST_SOURCES))
endif
ifneq ($(BACKEND)$(EMULATED),cuda1)
TEST_SOURCES := $(filter-out tests/cuda/% tests/ptx/%,$(TEST_SOURCES))
endif
ifeq ($(JSON),1)
TEST_SOURCES := $(filter-out %/test_without_json.c,$(TEST_SOURCES))
endif
ifneq ($(MPI),1)
TEST_SOURCES := $(filter-out tests/ranks/%,$(TEST_SOURCES))
endif
NOT_IN_CORE := $(patsubst %,\%/test_%.c,json json_suite families safetensors hf_config hf_families hf_checkpoint \
                 reference_models tiny_models unknown_keys template_ids pretokenize byte_bpe \
                 byte_bpe_any_text collisions peak_memory tokenizer_json tokenizer_files \
                 tokenizer_vectors json_output \
                 write_safetensors export selftest_command convert convert_outputs convert_metadata \
                 convert_bin convert_quality \
                 convert_kills outputs trace trace_names diff diff_models fidelity perplexity real_models \
                 hf_shards builtin_command teach_stories bench png attention attention_rope cost lens \
                 mask interventions replay view page breakers library_sampling prompts prompt_lines prompts_resume prompts_faults shards no_memory json_schema constrained session refusals \
                 speculation_command)
ifeq ($(JSON)$(PCRE2),00)
TEST_SOURCES := $(filter-out $(NOT_IN_CORE),$(TEST_SOURCES))
endif
# Programs are linked beside each other, whatever room their source is in.
TESTS := $(foreach t,$(TEST_SOURCES),$(BUILD)/tests/$(basename $(notdir $(t))))
PROGRAM_SOURCES := $(wildcard tests/programs/*.c training/*.c)
ifneq ($(BACKEND),cpu)
PROGRAM_SOURCES := $(filter-out tests/programs/exhaustive_%.c,$(PROGRAM_SOURCES))
endif
PROGRAMS := $(foreach t,$(PROGRAM_SOURCES),$(BUILD)/tests/$(basename $(notdir $(t))))

comma := ,

# ---- flags: what the code needs, apart from the user's CFLAGS ----
REQUIRED := -std=gnu11 -I. -MMD -MP -pthread -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
            -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wmissing-prototypes -Wpointer-arith -Wvla
REQUIRED_CXX := -std=gnu++17 -I. -MMD -MP -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow
# WERROR=1, for tests: another compiler's new warning shall not stop a user's build.
REQUIRED += $(if $(WERROR),-Werror)
REQUIRED_CXX += $(if $(WERROR),-Werror)

# Walls around a mistake, before CFLAGS, which may take them away. glibc's checked calls need an
# optimising compiler, and those of a sanitizer are the better ones: level 3, 2 or none is what compiles.
HARDENED := -fstack-protector-strong
HARDENED_SHARED := -Wl,-z,relro,-z,now,-z,noexecstack
HARDENED_LINK := $(HARDENED_SHARED) -pie
SANITIZED := $(findstring -fsanitize,$(CFLAGS) $(LDFLAGS))
fortifies = $(shell $(CC) $(CPPFLAGS) $(CFLAGS) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1) -Werror -fsyntax-only \
              -include features.h -x c /dev/null 2>/dev/null && echo $(1))
ifeq ($(SANITIZED),)
FORTIFY := $(firstword $(call fortifies,3) $(call fortifies,2))
ifeq ($(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),)
HARDENED += $(if $(FORTIFY),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(FORTIFY))
endif
endif
# gcc 12 for AArch64 stops with an internal error where it vectorises most = fmax(most, fabs(x[i])).
ifeq ($(MACHINE),aarch64)
HARDENED += -fno-tree-loop-vectorize
endif
# Paths and large structs are allocated. A sanitizer's frames are larger, and so are those of inner loops
# where gcc is not to optimise them in full, or in portable code, where a register of 16 floats is memory.
ifneq ($(if $(findstring -O0,$(CFLAGS)),,$(FORTIFY)),)
FRAMES := -Wframe-larger-than=4096
LOOP_FRAMES := $(if $(findstring -O3,$(CFLAGS)),$(FRAMES),-Wframe-larger-than=8192)
FRAMES_portable := -Wframe-larger-than=16384
endif
# Inner loops: their sizes are checked before, and a check in each call would be time.
UNGUARDED := -fno-stack-protector -U_FORTIFY_SOURCE
ifneq ($(SANITIZED),)
# A loop that is full of checks is not unrolled, of which clang warns.
UNGUARDED += -Wno-pass-failed
endif
# Debug info of functions and lines alone: that of the variables takes gcc as long as these unrolled loops themselves, and
# at -O3 gdb calls most of them optimised out.
LANE_DEBUG := $(if $(and $(findstring -O3,$(CFLAGS)),$(filter -g -g2 -g3 -ggdb%,$(CFLAGS))),-g1)
# With all of UndefinedBehaviorSanitizer's checks clang takes minutes to compile these loops. Left out are those of
# pointers, whose mistakes AddressSanitizer finds where they are used; bounds of arrays and shifts stay checked.
LEAN := $(if $(findstring undefined,$(CFLAGS)),-fno-sanitize=null$(comma)pointer-overflow$(comma)object-size)
# Clang does not unroll a loop whose counter is checked for overflow: arrays that should be registers stay in memory, and
# AddressSanitizer checks each access to them. Portable code, the same source, keeps the check of signed overflow.
LEAN_REGISTERS := $(if $(LEAN),-fno-sanitize=signed-integer-overflow)
# Address checks as calls: clang compiles in less than half the time, and the code runs several times slower. So only
# portable code, which few tests run.
ifneq ($(and $(findstring clang,$(CC)),$(findstring address,$(CFLAGS))),)
FLAGS_portable += -mllvm -asan-instrumentation-with-call-threshold=200
endif
$(BUILD)/weights/rounding/fit.o: private override CFLAGS += $(if $(LEAN),-O2 $(LEAN))
$(BUILD)/kernels/cpu/isa.o: REQUIRED += $(filter -D%,$(AMX))
STRICT := -Wconversion -Wsign-conversion
$(BUILD)/weights/%.o $(BUILD)/tokenizer/%.o $(BUILD)/grammar/%.o: REQUIRED += $(STRICT)
$(addprefix $(BUILD)/,$(SWITCHED)): REQUIRED += $(ABSENT)
ifeq ($(BACKEND)$(EMULATED),cuda0)
$(BUILD)/base/sandbox.o: REQUIRED += -DDEVICE_DRIVER=1
endif
ifeq ($(PLAIN),1)
TEST_FLAGS := -DTEST_PLAIN
else
TEST_LIBS := -lcriterion
endif
TEST_FLAGS += -DTEST_BACKEND='"$(BACKEND)"' -DTEST_RUN='"$(BUILD)/run"' -DTEST_BUILD='"$(BUILD)"' \
              -DTEST_EMULATED=$(EMULATED) -DTEST_EDIT=$(EDIT) -DTEST_CROSS=$(CROSS)

# Tests take half the time to compile that way, and compute little themselves.
TEST_CFLAGS := $(if $(findstring -O3,$(CFLAGS)),-O1 -g1)

# V=1 shows the commands, make -s neither them nor the files.
Q := $(if $(filter-out 0,$(V)),,@)
SILENT := $(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
say = $(Q)$(if $(filter-out 0,$(V))$(SILENT),:,printf '  %-4s %s\n' $(1) $@)

.PHONY: all lib examples run test test-all check fidelity core aarch64 exhaustive debug install uninstall deb format clean programs tests list-tests fuzzers cubins help always
all run: $(BUILD)/run
	@ln -sfn $(BUILD)/run run

# A linker that is killed leaves a part of a file, which would be newer than its objects: so by another name.
$(BUILD)/run: $(BUILD)/run.o $(OBJECTS)
	$(call say,LINK)
	$(Q)$(CC) $(HARDENED_LINK) $(CFLAGS) $(LDFLAGS) -o $@.new $^ $(LIBS)
	$(Q)mv $@.new $@

# What the objects and archives were made with: written anew, and they with it, only where that changes.
SWITCHES := $(CC) $(CXX) $(REQUIRED) $(REQUIRED_CXX) $(HARDENED) $(UNGUARDED) $(FRAMES) $(WERROR) $(CPPFLAGS) $(CFLAGS) $(NVCC) $(NVCC_FLAGS) $(GPU_CODE) $(KERNEL_FLAGS) $(LDFLAGS) $(TEST_FLAGS) $(LIBS) BUILTIN=$(BUILTIN)
# HEADER:PACKAGE:SWITCH, Debian's package and the switch that builds without it.
HEADERS := $(if $(filter 1,$(JSON)),jansson.h:libjansson-dev:JSON=0) \
           $(if $(filter 1,$(PCRE2)),pcre2.h:libpcre2-dev:PCRE2=0 utf8proc.h:libutf8proc-dev:PCRE2=0) \
           $(if $(filter 1,$(PNG)),png.h:libpng-dev:PNG=0 zlib.h:zlib1g-dev:PNG=0) \
           $(if $(filter 1,$(EDIT)),histedit.h:libedit-dev:EDIT=0)
$(BUILD)/switches: export TEXT := $(SWITCHES)
$(BUILD)/objects.list: export TEXT := $(OBJECTS)
$(BUILD)/libsupport.list: export TEXT := $(TEST_SUPPORT)
$(BUILD)/switches $(BUILD)/objects.list $(BUILD)/libsupport.list: always
	@mkdir -p $(@D)
	@echo "$$TEXT" | cmp -s - $@ || { $(if $(and $(filter %/switches,$@),$(strip $(HEADERS))),$(FIND_HEADERS) &&) echo "$$TEXT" >$@; }
# A line for each header that is missing; a compiler without __has_include finds none of them missing.
FIND_HEADERS = ! printf '\#if !__has_include(<%s>)\nmake: no %s: apt install %s, or make %s\n\#endif\n' \
    $(foreach h,$(HEADERS),$(firstword $(subst :, ,$(h))) $(subst :, ,$(h))) | \
    $(CC) $(CPPFLAGS) $(CFLAGS) -E -P -x c - 2>/dev/null | grep '^make: no' >&2

define compile_for
$(BUILD)/%.$(1).o: %.c $(BUILD)/switches
	@mkdir -p $$(@D)
	$$(call say,CC)
	$$(Q)$$(CC) $$(REQUIRED) $$(UNGUARDED) $$(if $(filter portable,$(1)),$$(FRAMES_portable),$$(LOOP_FRAMES)) $$(CPPFLAGS) $$(CFLAGS) $$(LEAN) $$(if $(filter portable,$(1)),,$$(LEAN_REGISTERS)) $$(LANE_DEBUG) $$(FLAGS_$(1)) -DISA=$(1) -DISA_$(1)=1 -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call compile_for,$(isa))))

define compile_tests
$(BUILD)/$(1)/%.o: $(1)/%.c $(BUILD)/switches
	@mkdir -p $$(@D)
	$$(call say,CC)
	$$(Q)$$(CC) $$(REQUIRED) $$(HARDENED) $$(TEST_FLAGS) $$(CPPFLAGS) $$(CFLAGS) $$(if $$(filter test_%,$$(notdir $$*)),$$(TEST_CFLAGS)) -c -o $$@ $$<
endef
$(foreach r,tests training,$(eval $(call compile_tests,$(r))))

$(BUILD)/%.o: %.c $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(REQUIRED) $(HARDENED) $(FRAMES) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Contraction and order are decided in the code, on a GPU too.
ifeq ($(EMULATED),1)
# fmaf is one instruction then, and no call.
NATIVE := $(if $(filter x86_64,$(MACHINE)),-march=native)
$(BUILD)/%.o: %.cu $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,EMU)
	$(Q)$(CXX) $(REQUIRED_CXX) -Itests/cuda -ffp-contract=off -fno-strict-aliasing $(NATIVE) $(CPPFLAGS) $(CFLAGS) $(filter-out $(REQUIRED_CXX),$(KERNEL_FLAGS)) -x c++ -c -o $@ $<
$(BUILD)/tests/cuda/%.o: REQUIRED_CXX += -Itests/cuda $(KERNEL_FLAGS)
# Fibers switch at every shuffle and barrier, and touch no memory of a kernel: what is checked is the kernels.
$(BUILD)/tests/cuda/fibers.o: REQUIRED_CXX += $(if $(findstring address,$(CFLAGS) $(KERNEL_FLAGS)),-DEMULATOR_ASAN)
$(BUILD)/tests/cuda/fibers.o: private override CFLAGS += -fno-sanitize=all
# The interpreter of PTX: of all code here the one that a wider vector unit helps most.
$(BUILD)/tests/ptx/%.o: REQUIRED_CXX += -Itests/cuda -ffp-contract=off -fno-strict-aliasing -ftree-vectorize $(NATIVE)

else
NVCC_COMPILE = $(NVCC) -std=c++17 -I. -Ikernels/cuda -MMD -MP $(NVCC_FLAGS) -lineinfo -fmad=false
$(BUILD)/%.o: %.cu $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,NVCC)
	$(Q)$(NVCC_COMPILE) $(GPU_CODE) -Xcompiler -fPIC,-fvisibility=hidden,-Wall -c -o $@ $<

endif

ifeq ($(BACKEND),cuda)
# nvcc's PTX of every kernel: LIMPID_PTX=build/ptx-90 runs it in place of the emulator's own.
PTX_ARCH ?= 90
PTX_FOLDER := build/ptx-$(PTX_ARCH)
PTX := $(patsubst %.cu,$(PTX_FOLDER)/%.ptx,$(call room,kernels/cuda,cu))
.PHONY: ptx
ptx: $(PTX)
$(PTX_FOLDER)/%.ptx: %.cu $(call room,base,h) $(wildcard weights/*.h kernels/*.h) $(call room,kernels/cuda,h)
	@mkdir -p $(@D)
	$(call say,PTX)
	$(Q)$(NVCC) -std=c++17 -I. -Ikernels/cuda -O3 -lineinfo -fmad=false -arch=compute_$(PTX_ARCH) -ptx -o $@ $<

# Machine code of it for one GPU, and what ptxas says of its registers: what tests/sass reads: of the kernels that
# a decoded token runs, and of attention of prompts. The products of prompts would take ptxas another minute.
PTXAS ?= $(patsubst %nvcc,%ptxas,$(NVCC))
CUBINS := $(patsubst %.cu,$(BUILD)/%.cubin,$(filter-out %/limits.cu %/device.cu %blas.cu %/project_many.cu,\
            $(shell grep -l __global__ $(call room,kernels/cuda,cu))))
cubins: $(CUBINS)
$(BUILD)/%.cubin: $(PTX_FOLDER)/%.ptx $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,SASS)
	$(Q)$(PTXAS) -arch=sm_$(PTX_ARCH) --generate-line-info -v -o $@ $< 2>$(@:.cubin=.usage) || \
	    { cat $(@:.cubin=.usage) >&2; rm -f $@; false; }
endif

$(BUILD)/weights/embedded.o: weights/embedded.S weights/builtin.gguf
$(BUILD)/pictures/page.o: pictures/page.S $(wildcard pictures/page/*)
$(EMBEDDED): $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,AS)
	$(Q)$(CC) -c -o $@ $(filter %.S,$^)

# The C compiler links, and has no runtime for vptr checks.
$(BUILD)/%.o: %.cpp $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) $(REQUIRED_CXX) $(HARDENED) $(CPPFLAGS) $(CFLAGS) -fno-sanitize=vptr -c -o $@ $<

# ---- the library: what limpid.h declares, with all that it needs inside ----
# One object out of many: the archive gives what library/ calls for. Its other names become local, so that a
# program may have functions of the same names; and so do groups of C++, which a linker would share.
LIBRARY_OWN := $(filter $(BUILD)/library/% $(ALIKE)/library/%,$(OBJECTS))
LIBRARY_LIBS := $(filter-out -lpng -lz -ledit,$(LIBS))
VERSION := $(shell sed -n 's/^\#define LIMPID_VERSION "\(.*\)"/\1/p' limpid.h)
LIBDIR ?= $(PREFIX)/lib
OBJCOPY ?= objcopy
LIBRARY := $(addprefix $(BUILD)/,liblimpid.a liblimpid.so.0 liblimpid.so limpid.pc)
lib: $(LIBRARY)

$(BUILD)/limpid.o: $(LIBRARY_OWN) $(BUILD)/objects.a
	$(call say,LINK)
	$(Q)$(CC) -r -nostdlib -Wl,--force-group-allocation -o $@.new $^
	$(Q)$(OBJCOPY) -w --keep-global-symbol='limpid_*' $@.new
	$(Q)mv $@.new $@

$(BUILD)/liblimpid.a: $(BUILD)/limpid.o
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) crs $@ $^

$(BUILD)/liblimpid.so.0: $(BUILD)/limpid.o library/limpid.map
	$(call say,LINK)
	$(Q)$(CC) -shared $(HARDENED_SHARED) -Wl,-z,nodelete $(CFLAGS) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=library/limpid.map \
	    -o $@.new $< $(LIBRARY_LIBS)
	$(Q)mv $@.new $@

$(BUILD)/liblimpid.so: $(BUILD)/liblimpid.so.0
	$(Q)ln -sfn $(<F) $@

# A program that links liblimpid.a needs these libraries too: pkg-config --static.
$(BUILD)/limpid.pc: limpid.h always
	$(Q)rm -f $@
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' 'Name: limpid' \
	    'Description: inference of small language models' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
	    'Libs: -L$${libdir} -llimpid' 'Libs.private: $(LIBRARY_LIBS)' >$@

# As a user compiles them, against the shared library; NAME-static against the other one.
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))
EXAMPLE_FLAGS := -std=c11 -I. -Wall -Wextra
examples: $(EXAMPLES) $(EXAMPLES:%=%-static)
$(EXAMPLES): $(BUILD)/examples/%: examples/%.c limpid.h $(BUILD)/liblimpid.so
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(EXAMPLE_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< -L$(BUILD) -llimpid -Wl,-rpath,'$$ORIGIN/..' -lm
$(EXAMPLES:%=%-static): $(BUILD)/examples/%-static: examples/%.c limpid.h $(BUILD)/liblimpid.a
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(EXAMPLE_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(BUILD)/liblimpid.a $(LIBRARY_LIBS)

# Tests and programs link what they use of these, not all of it.
$(BUILD)/objects.a: $(OBJECTS)
$(BUILD)/libsupport.a: $(TEST_SUPPORT)
$(BUILD)/%.a: $(BUILD)/%.list
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) crsT $@ $(filter %.o,$^)

# TEST_LDFLAGS=-fuse-ld=lld: by another linker.
define link_test
$(BUILD)/tests/$(basename $(notdir $(1))): $(BUILD)/$(1:.c=.o) $(BUILD)/libsupport.a $(BUILD)/objects.a
	$$(call say,LINK)
	$$(Q)$$(CC) $$(HARDENED_LINK) $$(CFLAGS) $$(LDFLAGS) $$(TEST_LDFLAGS) -o $$@ $$^ $$(LIBS) $(2) -ldl
endef
$(foreach t,$(TEST_SOURCES),$(eval $(call link_test,$(t),$(TEST_LIBS))))
$(foreach t,$(PROGRAM_SOURCES),$(eval $(call link_test,$(t))))

# What scripts/check_gpu asks of the GPU itself.
$(BUILD)/tests/gpu_%: $(BUILD)/scripts/gpu/%.o $(BUILD)/objects.a
	$(call say,LINK)
	$(Q)$(CC) $(HARDENED_LINK) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/tests/test_fidelity: | $(BUILD)/tests/fidelity $(BUILD)/run

$(BUILD)/tests/test_examples: | lib examples $(BUILD)/run

# These run the program as a child process.
$(addprefix $(BUILD)/tests/test_,commands ranks constrained line_editor conversation containers other_commands streams signals resource_limits json_output perplexity real_models \
    convert convert_outputs convert_metadata hardening outputs trace trace_names diff diff_models builtin_command prompt_cache overflow ring_commands session \
    prompts prompt_lines prompts_resume prompts_faults shards \
    library library_sampling completion cuda_device cuda_switches cost lens mask interventions replay view page $(patsubst tests/gdb/test_%.c,%,$(wildcard tests/gdb/*.c))): | $(BUILD)/run

# tests/commands/test_selftest.c breaks these kernels, one at a time.
BREAKABLE := attention rope rmsnorm project kv_write kv_copy device_matrix
$(BUILD)/tests/test_selftest: private LDFLAGS += $(BREAKABLE:%=-Wl$(comma)--wrap=%)

# In these calls of a reader its file is rewritten: tests/support/files/rewriting.c.
REWRITING := malloc calloc realloc posix_memalign mmap pread fstat close
$(addprefix $(BUILD)/tests/test_changing_,models tokenizers cache): \
    private LDFLAGS += $(REWRITING:%=-Wl$(comma)--wrap=%)
# These reads are interrupted or fail: tests/base/test_file_reader.c.
$(BUILD)/tests/test_file_reader: private LDFLAGS += -Wl$(comma)--wrap=pread
# What limpid has read of a GGUF when it turns to the model: tests/programs/differential.c.
$(BUILD)/tests/differential: private LDFLAGS += -Wl$(comma)--wrap=gguf_read_vocabulary
$(addprefix $(BUILD)/tests/test_,selftest_command bench): | $(BUILD)/run $(BUILD)/tests/random_model

# In these calls of a reader there is no memory: tests/faults/test_no_memory.c.
MEMORY_CALLS := malloc calloc realloc arena_alloc arena_text
$(BUILD)/tests/test_no_memory: private LDFLAGS += $(MEMORY_CALLS:%=-Wl$(comma)--wrap=%)

# A library that makes calls fail.
$(BUILD)/tests/faults.so: tests/faults/faults.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -O1 -shared -fPIC -D_GNU_SOURCE -Wall -Wextra -o $@ $< -ldl
$(addprefix $(BUILD)/tests/test_,torture torture_laboratory torture_transfers torture_compound convert_kills prompts_faults signals prompt_cache outputs): | $(BUILD)/tests/faults.so $(BUILD)/run

# Models of every family and what numpy computes on them; without numpy their tests are skipped.
TINY_MODELS := build/tiny-models/models.txt
$(TINY_MODELS): scripts/make_tiny_models.py scripts/reference_numpy.py scripts/tensor_files.py
	$(call say,MAKE)
	$(Q)if $(PYTHON) -c 'import numpy' 2>/dev/null; then $(PYTHON) $< $(@D); \
	    else echo 'no numpy for $(PYTHON): no tiny models'; fi
$(addprefix $(BUILD)/tests/test_,tiny_models diff_models unknown_keys convert trace trace_names \
    families selftest_command convert_kills cost view): | $(TINY_MODELS) $(BUILD)/run

$(BUILD)/tests/test_ranks: | $(BUILD)/tests/large_message
$(addprefix $(BUILD)/tests/test_,random_model diff_models ring_commands gdb_cache): | $(BUILD)/tests/random_model
$(BUILD)/tests/test_teach_stories: | $(BUILD)/run $(BUILD)/tests/teach_stories
$(BUILD)/tests/test_sample_stories: | $(BUILD)/run $(BUILD)/tests/sample_stories

# Fuzz targets; scripts/fuzz builds and runs them with libFuzzer and AFL++ (afl-clang-fast puts its own driver
# in libFuzzer's place), and keeps the ledger. The .so of a target has its mutator, for AFL++, whose functions may
# have names of ours: -Bsymbolic.
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
MUTATORS := $(FUZZERS:%=%.so)
FUZZ_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/fuzz/fuzz_% tests/fuzz/afl.c,$(wildcard tests/fuzz/*.c)) \
                  tests/support/files/gguf_writer.c tests/support/files/made_vocabulary.c)
$(FUZZERS): $(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(FUZZ_SUPPORT) $(BUILD)/objects.a
	$(call say,LINK)
	$(Q)$(CC) $(HARDENED_LINK) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
$(MUTATORS): $(BUILD)/tests/fuzz/%.so: $(BUILD)/tests/fuzz/%.o $(BUILD)/tests/fuzz/afl.o $(FUZZ_SUPPORT) $(BUILD)/objects.a
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-Bsymbolic $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
# fuzz_program calls the program's main.
$(BUILD)/tests/fuzz/fuzz_program $(BUILD)/tests/fuzz/fuzz_program.so: $(BUILD)/tests/fuzz/main.o
$(BUILD)/tests/fuzz/main.o: run.c $(BUILD)/switches
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(REQUIRED) $(CPPFLAGS) $(CFLAGS) -Dmain=limpid_main -Wno-missing-prototypes -c -o $@ $<
# The mutators are no part of what is tested, and the kernels see sizes that were checked: with the counters of
# a fuzzer most of a run would be theirs. The kernels keep the sanitizers; the mutators keep MemorySanitizer alone,
# which has to see what they write.
ifneq ($(findstring fuzzer-no-link,$(CFLAGS)),)
WITHOUT_COUNTERS := $(subst -fsanitize=fuzzer-no-link$(comma),-O2 -fsanitize=,$(CFLAGS))
$(BUILD)/kernels/%.o: private override CFLAGS := $(WITHOUT_COUNTERS)
$(addprefix $(BUILD)/tests/fuzz/,mutate.o walk.o): private override CFLAGS := \
    $(WITHOUT_COUNTERS) $(if $(findstring address,$(CFLAGS)),-fno-sanitize=all)
endif
fuzzers: $(FUZZERS)

tests: $(TESTS)
programs: $(PROGRAMS)
list-tests:
	@printf '%s\n' $(notdir $(TESTS))

# Without the stack protector a breakpoint on a function is behind what stores its arguments.
DEBUG_CFLAGS := -O0 -g3 -fno-stack-protector
debug:
	$(MAKE) BACKEND=reference VARIANT=debug CFLAGS='$(DEBUG_CFLAGS)'

core:
	$(MAKE) VARIANT=core JSON=0 PCRE2=0 PNG=0 EDIT=0 PLAIN=1

# For AArch64, on any machine with Debian's cross compiler: libc alone, static, so that qemu-user runs it as it
# is (qemu-aarch64-static build/cpu-aarch64/run).
aarch64:
	$(MAKE) $(AARCH64) $(GOALS)
AARCH64 := VARIANT=aarch64 CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar JSON=0 PCRE2=0 PNG=0 EDIT=0 \
           PLAIN=1 LDFLAGS='-static -no-pie' CROSS=$(if $(filter aarch64,$(MACHINE)),0,1)
GOALS ?= build/cpu-aarch64/run

# The table family x container x backend with the measured errors: make fidelity FIDELITY=--brief
# cuda-emulated: the kernels for a GPU, on the CPU
FIDELITY_BACKENDS ?= reference cpu cuda-emulated
fidelity-build = build/$(1)$(if $(filter cuda-emulated,$(1)),,-release)
fidelity-switches = BACKEND=$(1:-emulated=) EMULATED=$(if $(filter cuda-emulated,$(1)),1,0)
space := $() $()
fidelity:
	$(foreach b,$(FIDELITY_BACKENDS),$(MAKE) $(call fidelity-switches,$(b)) \
	    $(addprefix $(call fidelity-build,$(b))/,run tests/fidelity) &&) true
	@$(PYTHON) scripts/fidelity --backends $(subst $(space),$(comma),$(strip $(FIDELITY_BACKENDS))) $(FIDELITY)

# Conversions, functions and scale rules on all of their inputs, 2^32 where they are float32.
EXHAUSTIVE := $(addprefix $(BUILD)/tests/exhaustive_,functions scales)
exhaustive: $(EXHAUSTIVE)
	$(BUILD)/tests/exhaustive_functions && $(BUILD)/tests/exhaustive_scales

test:
	bash scripts/run_tests

test-all:
	bash scripts/run_tests --all

check:
	bash scripts/run_tests --quick

# gdb whose files are under PREFIX loads limpid's commands by itself: Debian's with PREFIX=/usr.
GDB_AUTO_LOAD := $(PREFIX)/share/gdb/auto-load$(PREFIX)/bin
# STRIP= leaves the names that a debugger wants, and the program at 13 MB.
STRIP ?= strip
SHARE := $(DESTDIR)$(PREFIX)/share
# What `limpid --help` and the manual page name, under the same paths.
PAGES := README.md SECURITY.md $(wildcard docs/*.md) docs/page.png
install: all lib
	$(Q)case '$(PREFIX)$(LIBDIR)' in *' '*) echo 'make install: no spaces in PREFIX and LIBDIR' >&2; exit 2;; esac
	$(Q)case '$(PREFIX):$(LIBDIR)' in /*:/* | :/*) ;; *) echo 'make install: PREFIX and LIBDIR begin with a /' >&2; exit 2;; esac
	install -D -m 755 $(BUILD)/run "$(DESTDIR)$(PREFIX)/bin/limpid"
	$(if $(STRIP),$(STRIP) "$(DESTDIR)$(PREFIX)/bin/limpid")
	install -D -m 644 docs/limpid.1 "$(SHARE)/man/man1/limpid.1"
	install -d "$(SHARE)/doc/limpid/docs"
	$(foreach page,$(PAGES),install -m 644 $(page) "$(SHARE)/doc/limpid/$(page)" &&) true
	install -D -m 644 scripts/completion/limpid.bash "$(SHARE)/bash-completion/completions/limpid"
	install -D -m 644 scripts/completion/_limpid "$(SHARE)/zsh/site-functions/_limpid"
	install -D -m 644 scripts/completion/limpid.fish "$(SHARE)/fish/vendor_completions.d/limpid.fish"
	install -d "$(SHARE)/limpid/gdb" "$(DESTDIR)$(GDB_AUTO_LOAD)"
	install -m 644 scripts/limpid-gdb.py "$(SHARE)/limpid"
	install -m 644 $(wildcard scripts/gdb/*.py) "$(SHARE)/limpid/gdb"
	ln -sf $(PREFIX)/share/limpid/limpid-gdb.py "$(DESTDIR)$(GDB_AUTO_LOAD)/limpid-gdb.py"
	install -D -m 644 limpid.h "$(DESTDIR)$(PREFIX)/include/limpid.h"
	install -d "$(DESTDIR)$(LIBDIR)/pkgconfig"
	install -m 644 $(BUILD)/liblimpid.a $(BUILD)/liblimpid.so.0 "$(DESTDIR)$(LIBDIR)"
	$(if $(STRIP),$(STRIP) --strip-unneeded "$(DESTDIR)$(LIBDIR)/liblimpid.a" "$(DESTDIR)$(LIBDIR)/liblimpid.so.0")
	ln -sfn liblimpid.so.0 "$(DESTDIR)$(LIBDIR)/liblimpid.so"
	install -m 644 $(BUILD)/limpid.pc "$(DESTDIR)$(LIBDIR)/pkgconfig"

# The files of `make install` with the same PREFIX, LIBDIR and DESTDIR, and no other.
uninstall:
	rm -f "$(DESTDIR)$(PREFIX)/bin/limpid" "$(DESTDIR)$(PREFIX)/include/limpid.h" "$(SHARE)/man/man1/limpid.1"
	rm -f "$(SHARE)/bash-completion/completions/limpid" "$(SHARE)/zsh/site-functions/_limpid"
	rm -f "$(SHARE)/fish/vendor_completions.d/limpid.fish" "$(DESTDIR)$(GDB_AUTO_LOAD)/limpid-gdb.py"
	rm -f "$(DESTDIR)$(LIBDIR)/liblimpid.a" "$(DESTDIR)$(LIBDIR)/liblimpid.so.0" "$(DESTDIR)$(LIBDIR)/liblimpid.so"
	rm -f "$(DESTDIR)$(LIBDIR)/pkgconfig/limpid.pc"
	rm -f "$(SHARE)/limpid/limpid-gdb.py" $(foreach f,$(notdir $(wildcard scripts/gdb/*.py)),"$(SHARE)/limpid/gdb/$(f)")
	rm -rf "$(SHARE)/limpid/gdb/__pycache__"
	rm -f $(foreach page,$(PAGES),"$(SHARE)/doc/limpid/$(page)")
	rmdir "$(SHARE)/limpid/gdb" "$(SHARE)/limpid" "$(SHARE)/doc/limpid/docs" "$(SHARE)/doc/limpid" 2>/dev/null || true

# build/deb/*.deb: the program, the library, and what a program that uses it is built with.
deb: all lib
	bash scripts/make_deb build/deb $(VERSION)

# The first lines of this file.
help:
	@sed -n '/^[^#]/q; s/^#[ ]\{0,1\}//p' Makefile

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cpp' '*.cu')

clean:
	rm -rf build run

.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
