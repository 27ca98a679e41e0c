/* The trainer's options: one row each, in the order of the help. Included by config.c alone. */
#ifndef TRINE_CONFIG_ROWS_H
#define TRINE_CONFIG_ROWS_H

#define TEXT(id, text, ...) text,
static const char *const scalings[] = {TRINE_ROPE_LIST(TEXT)};
static const char *const schedules[] = {TRINE_SCHEDULE_LIST(TEXT)};
static const char *const recomputes[] = {TRINE_RECOMPUTE_LIST(TEXT)};
static const char *const transports[] = {TRINE_TRANSPORT_LIST(TEXT)};
static const char *const cpu_levels[] = {TRINE_CPU_LEVEL_LIST(TEXT)};
static const char *const wsd_decays[] = {TRINE_WSD_LIST(TEXT)};
static const char *const devices[] = {DEVICE_LIST(TEXT)};
#undef TEXT
#define TEXT(text, ...) text,
static const char *const models[] = {"custom", PRESET_LIST(TEXT)};
#undef TEXT
static const char *const families[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3"}; /* for completion */
static const char *const zeros[] = {"0", "1", "2", "3"};
static const char *const decays[] = {"cosine", "linear", "constant", "wsd"};
static const char *const grad_types[] = {[TRINE_F32] = "fp32", [TRINE_BF16] = "bf16", [TRINE_F16] = "fp16"};
static const char *const explanations[] = {"layers"};
static const char *const no_file[] = {CONFIG_NO_FILE};
static const char *const newest[] = {"auto"};
static const char *const plans[] = {"auto"};
static const char *const progresses[] = PROGRESS_WORDS;
static const char *const resets[] = {[TRINE_RESET_AUTO] = "auto", [TRINE_RESET_YES] = "yes", [TRINE_RESET_NO] = "no"};

static const option_type family_type = {read_family, print_family};
static const option_type marks_type = {read_marks, print_marks};
static const option_type targets_type = {read_targets, print_targets};
static const option_type steps_type = {read_steps, print_steps};
static const option_type bytes_type = {read_bytes, print_bytes};

/* Roles; n is the number in checkpoints. A new row takes a number above all others; a number, once used, keeps its
 * meaning, since it orders the text of checkpoints. */
#define MODEL(n)      .role = OPTION_MODEL, .bits = OPTION_BITS_RUN, .saved = (n)
#define MODEL_IF(n)   MODEL(n), .absent = true
#define NUMBERS(n)    .role = OPTION_NUMBERS, .bits = OPTION_BITS_RUN, .saved = (n)
#define NUMBERS_IF(n) NUMBERS(n), .absent = true
#define LAYOUT(n)     .role = OPTION_LAYOUT, .bits = OPTION_BITS_SEEN, .saved = (n)
#define LAYOUT_IF(n)  LAYOUT(n), .absent = true
/* Of the others a row says itself what it does to the bits of a step, by the ending. */
#define JOINT         .role = OPTION_JOINT, .bits = OPTION_BITS_SAME
#define JOINT_SEEN    .role = OPTION_JOINT, .bits = OPTION_BITS_SEEN
#define JOINT_ASSUMED .role = OPTION_JOINT, .bits = OPTION_BITS_ASSUMED
#define GIVEN         .role = OPTION_GIVEN, .bits = OPTION_BITS_SAME
#define GIVEN_ASSUMED .role = OPTION_GIVEN, .bits = OPTION_BITS_ASSUMED
#define OWN           .role = OPTION_OWN, .bits = OPTION_BITS_SAME
#define OWN_SEEN      .role = OPTION_OWN, .bits = OPTION_BITS_SEEN
#define OWN_ASSUMED   .role = OPTION_OWN, .bits = OPTION_BITS_ASSUMED
#define OF_RUN        .base = CONFIG_RUN
#define OF_CHECKPOINT .base = CONFIG_CHECKPOINT

static const option rows[] = {
    {OPTION_HEADING("Model")},
    {OF_RUN, OWN, OPTION_WORD("model", trine_run, model, models, "NAME", "custom",
         "a model preset; the options below override its sizes: gpt2 (-medium, -large, -xl), smollm2-135m, "
         "llama3.2-1b, llama3.1-8b, mistral-7b, qwen2.5-0.5b, qwen3-0.6b and more (a wrong name lists them); custom: "
         "gpt2 with the token file's vocabulary")},
    {MODEL_IF(18), OPTION_WORDS(families), OPTION_TYPE("family", trine_config, model.family, &family_type, "NAME",
         "layers of a block: gpt2, llama, mistral, qwen2, qwen3, or a family that the program has added")},
    {MODEL(1), OPTION_INT("num-layers", trine_config, model.num_layers, "N", 1, 32000, 12,
         "number of transformer blocks")},
    {MODEL(2), OPTION_INT("hidden-size", trine_config, model.hidden_size, "N", 1, CONFIG_MOST_WIDTH, 768,
         "transformer hidden size")},
    {MODEL(3), OPTION_INT("num-attention-heads", trine_config, model.num_attention_heads, "N", 1, INT_MAX, 12,
         "number of attention heads; a multiple of --tp")},
    {MODEL(4), OPTION_INT("ffn-hidden-size", trine_config, model.ffn_hidden_size, "N", 0, INT_MAX, 0,
         "MLP hidden size; 0: 4 x --hidden-size")},
    {MODEL(5), OPTION_INT("seq-length", trine_config, model.seq_length, "N", 1, INT_MAX, 1024,
         "sequence length in tokens")},
    {MODEL_IF(17), OPTION_INT("max-position-embeddings", trine_config, model.max_positions, "N", 0, INT_MAX, 0,
         "positions to record in checkpoints; 0: the loaded folder's")},
    {MODEL(6), OPTION_INT("vocab-size", trine_config, model.vocab_size, "N", 0, INT_MAX, 0,
         "vocabulary size; 0: from the token file")},
    {MODEL_IF(8), OPTION_INT("num-query-groups", trine_config, model.num_query_groups, "N", 0, INT_MAX, 0,
         "key/value heads (GQA); 0: same as --num-attention-heads")},
    {MODEL_IF(9), OPTION_INT("kv-channels", trine_config, model.kv_channels, "N", 0, CONFIG_MOST_WIDTH, 0,
         "width of a head; 0: --hidden-size / --num-attention-heads")},
    {MODEL_IF(10), OPTION_DOUBLE("norm-epsilon", trine_config, model.norm_epsilon, "X", OPTION_FRACTION, 0,
         "epsilon of RMS norms; 0: 1e-5")},
    {MODEL_IF(11), OPTION_DOUBLE("rotary-base", trine_config, model.rotary_base, "X", 0, INFINITY, 0,
         "theta of rotary positions; 0: 10000")},
    {MODEL_IF(12), OPTION_CHOICE("rope-scaling", trine_config, model.rope_scaling.kind, scalings, TRINE_ROPE_DEFAULT,
         "how rotary frequencies are scaled")},
    {MODEL_IF(13), OPTION_DOUBLE("rope-scaling-factor", trine_config, model.rope_scaling.factor, "X", 0, INFINITY, 0,
         "factor of --rope-scaling")},
    {MODEL_IF(14), OPTION_DOUBLE("rope-low-freq-factor", trine_config, model.rope_scaling.low_freq_factor,
         "X", 0, INFINITY, 0,
         "--rope-scaling llama3: longer wavelengths than --rope-original-length / X are scaled")},
    {MODEL_IF(15), OPTION_DOUBLE("rope-high-freq-factor", trine_config, model.rope_scaling.high_freq_factor,
         "X", 0, INFINITY, 0,
         "--rope-scaling llama3: shorter wavelengths than --rope-original-length / X are not scaled")},
    {MODEL_IF(16), OPTION_INT("rope-original-length", trine_config, model.rope_scaling.original_length,
         "N", 0, INT_MAX, 0,
         "--rope-scaling llama3: positions before the scaling (original_max_position_embeddings)")},
    {MODEL(7), .alias = "untie-embeddings-and-output-weights", OPTION_FLAG("untied", trine_config, model.untied,
         "untie the output head from the token embedding")},
    {MODEL_IF(90), OPTION_INT("lora-rank", trine_config, model.lora.rank, "R", 0, CONFIG_MOST_WIDTH, 0,
         "low-rank adapters (LoRA) of this rank; 0: none")},
    {MODEL_IF(91), OPTION_DOUBLE("lora-alpha", trine_config, model.lora.alpha, "X", 0, INFINITY, 0,
         "adapters are scaled by X / --lora-rank; 0: 8")},
    {MODEL_IF(92), OPTION_TYPE("lora-targets", trine_config, model.lora.targets, &targets_type, "LIST",
         "matrices with adapters, by the ends of their names: q_proj,v_proj, or all-linear; otherwise those of "
         "q_proj, v_proj and c_attn that the family has")},
    {MODEL_IF(93), OPTION_FLAG("lora-rslora", trine_config, model.lora.rslora,
         "scale adapters by --lora-alpha / sqrt(--lora-rank)")},
    {NUMBERS_IF(94), OPTION_DOUBLE("lora-dropout", trine_config, model.lora.dropout, "P", OPTION_FRACTION, 0,
         "dropout probability of the adapters' inputs")},
    {NUMBERS(19), OPTION_DOUBLE("hidden-dropout", trine_config, model.hidden_dropout, "P", OPTION_FRACTION, 0,
         "dropout probability of embeddings and residual branches")},
    {NUMBERS(20), OPTION_DOUBLE("attention-dropout", trine_config, model.attention_dropout, "P", OPTION_FRACTION, 0,
         "dropout probability of attention probabilities")},

    {NUMBERS_IF(80), .room_base = CONFIG_RUN, OPTION_GLOBS("freeze", trine_config, model.trained, '-', trine_run,
         trained_words, "GLOB",
         "do not train the tensors whose names in files match, e.g. 'model.layers.[0-7].*'; may be repeated and "
         "mixed with --train: the last pattern that matches a tensor counts")},
    {OWN, .room_base = CONFIG_RUN, OPTION_GLOBS("train", trine_config, model.trained, '+', trine_run, trained_words,
         "GLOB", "train the tensors whose names match, even if an earlier --freeze matches them, e.g. --freeze '*' "
         "--train '*.bias'")},

    {OPTION_HEADING("Parallelism")},
#define AXIS_ROW(axis, member, long_name, help)                                                                      \
    {LAYOUT(44 + axis), .alias = long_name, OPTION_INT(#member, trine_config, parallel.layout.member, "N",           \
         axis == TRINE_AXIS_DP ? 0 : 1, INT_MAX, axis == TRINE_AXIS_DP ? 0 : 1, help)},
    TRINE_AXIS_LIST(AXIS_ROW)
#undef AXIS_ROW
    {LAYOUT(60), .alias = "zero-stage", OPTION_CHOICE("zero", trine_config, parallel.zero, zeros, 0,
         "ZeRO stage, shards over dp: 1 optimizer state, 2 also gradients, 3 also parameters")},
    {LAYOUT(61), OPTION_READS, OPTION_CHOICE_OR_FILE("schedule", trine_config, parallel.schedule,
         parallel.schedule_file, schedules, "NAME|FILE", TRINE_1F1B,
         "pipeline schedule: naive, gpipe, 1f1b, interleaved, zb, zbv, v-half, bfs, or a file in the CSV of "
         "torch.distributed.pipelining")},
    {JOINT_SEEN, OPTION_STRING("schedule-file", trine_config, parallel.schedule_file, "FILE", NULL, NULL)},
    {JOINT_SEEN, OPTION_INT("num-virtual-stages-per-pipeline-rank", trine_config, parallel.virtual_stages, "N", 0,
         STAGE_CHUNKS, 0,
         "model chunks per pipeline stage; 0: as the schedule")},
    {JOINT_SEEN, OPTION_FLAG("split-backward", trine_config, parallel.split_backward,
         "send the gradient of a block's input before computing its parameter gradients")},
    {LAYOUT_IF(68), OPTION_FLAG("exact", trine_config, parallel.exact,
         "bitwise equal results on any layout: dp must divide --exact-dp, and --exact-tp / tp must be a power of "
         "two, or tp 1")},
    {LAYOUT_IF(69), OPTION_INT("exact-dp", trine_config, parallel.exact_dp, "D", 0, INT_MAX, 0,
         "--exact: add over dp as D ranks do; 0: one for each micro-batch of a step")},
    {LAYOUT_IF(70), OPTION_INT("exact-tp", trine_config, parallel.exact_tp, "T", 0, INT_MAX, 0,
         "--exact: split and add over tp as T ranks do; 0: --tp")},
    {LAYOUT(62), OPTION_PLAIN, OPTION_STRING("pp-split", trine_config, parallel.pp_split, "LIST", NULL,
         "transformer blocks of each stage, e.g. e,5,5,h with e the embedding and h the head; otherwise balanced by "
         "cost")},
    {JOINT_SEEN, OPTION_INT("gather-buffers", trine_config, parallel.gather_buffers, "N", 1, 30000, 2,
         "ZeRO-3: buffers for gathered parameters, per buffer class")},
    {JOINT_SEEN, OPTION_INT("reduce-buffers", trine_config, parallel.reduce_buffers, "N", 1, 30000, 2,
         "ZeRO-2 and 3: buffers for gradients to reduce, per buffer class")},
    {LAYOUT(63), OPTION_FLAG("sequence-parallel", trine_config, parallel.sequence_parallel,
         "shard activations along the sequence between TP regions")},
    {LAYOUT(64), OPTION_CHOICE("recompute-granularity", trine_config, parallel.recompute, recomputes,
         TRINE_RECOMPUTE_NONE,
         "activations to recompute in the backward pass; selective: norms and GELUs; full: everything in the unit")},
    {JOINT_SEEN, OPTION_FLAG("keep-recomputed", trine_config, parallel.keep_recomputed,
         "full recomputation: keep recomputed values until the schedule computes parameter gradients; takes memory")},
    {LAYOUT(66), OPTION_INT("loss-chunk", trine_config, parallel.loss_chunk, "N", 0, INT_MAX, 0,
         "rows of logits computed at a time; 0: from the vocabulary size and the device")},
    {JOINT_SEEN, OPTION_INT("ranks-per-node", trine_config, parallel.ranks_per_node, "N", 0, INT_MAX, 0,
         "ranks per node; 0: as detected by MPI")},
    {JOINT, OPTION_TYPE("memory", trine_config, parallel.memory, &bytes_type, "SIZE",
         "memory of a rank: 512M, 80G; --dry-run says whether the layout fits and what would; a run that does not "
         "fit is refused; --plan auto chooses a layout that fits; otherwise not limited")},
    {JOINT_SEEN, OPTION_CHOICE("transport", trine_config, parallel.transport, transports, TRINE_TRANSPORT_AUTO,
         "transport; mpi: messages; shm: shared memory of the node; nccl: NCCL, or refuse to run; auto: shm where "
         "two ranks share a node, nccl where each rank has a GPU")},
    {JOINT_SEEN, OPTION_FLAG("ordered-reductions", trine_config, parallel.ordered_reductions,
         "nccl: reduce in rank order, bitwise equal to the other transports")},
    {JOINT, OPTION_INT("nccl-lane-ctas", trine_config, parallel.nccl_lane_ctas, "N", 0, 64, 8,
         "nccl: most multiprocessors that a message between stages occupies, also while it waits; 0: NCCL's choice")},
    {JOINT, OPTION_FLAG("stage-messages", trine_config, parallel.stage_messages,
         "cuda: stage messages through host memory even if MPI is CUDA-aware")},
    {LAYOUT(67), OPTION_WORD("device", trine_config, parallel.device, devices, NULL, "cpu", "compute device")},
    {OWN_ASSUMED, OPTION_READS, OPTION_STRING("cuda-library", trine_config, parallel.cuda_library, "FILE", NULL,
         "cuda: path of libtrine_cuda.so; otherwise searched for beside the program")},
    {NUMBERS(29), OPTION_FLAG("tf32", trine_config, parallel.tf32,
         "cuda: use TF32 for matrix products; faster, less accurate")},
    {OF_RUN, JOINT_SEEN, OPTION_WORD("plan", trine_run, plan, plans, NULL, NULL,
         "choose the layout: the fastest that fits, by a forecast for --hardware (docs/planning.md); given options "
         "are kept: dp, tp, pp, virtual stages, schedule, ZeRO, micro-batch, recomputation, sequence parallelism")},
    {OF_RUN, OWN, OPTION_READS, OPTION_STRING("hardware", trine_run, hardware, "NAME", NULL,
         "--plan: the machine, as in trine-plan: h100, ... or the path of a file that trine-doctor --write-hardware "
         "writes; its device is the default of --device")},
    {OWN_SEEN, OPTION_INT("threads", trine_config, parallel.threads, "N", 0, 4096, 0,
         "threads per rank; 0: from the affinity mask and the ranks of the node")},
    {LAYOUT_IF(71), OPTION_FLAG("exact-threads", trine_config, parallel.exact_threads,
         "bitwise equal results on any number of threads; cpu: multiply only by oneDNN's brgemm, or refuse to run")},
    {LAYOUT_IF(95), OPTION_CHOICE("cpu-level", trine_config, parallel.cpu_level, cpu_levels, TRINE_CPU_AUTO,
         "cpu: instructions of kernels and oneDNN, the same on all ranks; auto: the highest that the build and all "
         "ranks have")},
    {OWN, OPTION_DOUBLE("timeout", trine_config, parallel.timeout, "SECONDS", 0, 1e9, 600,
         "abort the job when a rank has waited this long; 0: never")},
    {OWN, OPTION_DOUBLE("io-timeout", trine_config, parallel.io_timeout, "SECONDS", 0, 1e9, 1800,
         "abort the job when a single file system call, e.g. fsync, takes this long; 0: never")},
    {JOINT_SEEN, OPTION_FLAG("audit", trine_config, parallel.audit,
         "verify every collective across its group; compare hashes of replicas")},
    {JOINT, OPTION_FLAG("serial", trine_config, parallel.serial,
         "complete each instruction before starting the next, for debugging")},
    {JOINT_SEEN, OPTION_FLAG("one-queue", trine_config, parallel.one_queue,
         "run the programs made for NCCL: one queue per device, messages in groups")},

    {OPTION_HEADING("Precision")},
    {NUMBERS(21), OPTION_FLAG("bf16", trine_config, precision.bf16,
         "bf16 weights and activations, fp32 master weights")},
    {NUMBERS(22), OPTION_FLAG("fp16", trine_config, precision.fp16,
         "fp16 weights and activations, fp32 master weights, loss scaling")},
    {NUMBERS(23), OPTION_CHOICE("grad-dtype", trine_config, precision.grads, grad_types, TRINE_F32,
         "data type of weight gradients: fp32 or the 16-bit compute type")},
    {NUMBERS(24), .or_zero = true, OPTION_DOUBLE("loss-scale", trine_config, precision.loss_scale, "X",
         OPTION_POSITIVE, 0,
         "fp16: static loss scale; 0: dynamic")},
    {NUMBERS(25), OPTION_DOUBLE("initial-loss-scale", trine_config, precision.initial_loss_scale, "X",
         OPTION_POSITIVE, 4294967296.0,
         "dynamic loss scale: initial value")},
    {NUMBERS(26), OPTION_DOUBLE("min-loss-scale", trine_config, precision.min_loss_scale, "X", OPTION_POSITIVE, 1,
         "dynamic loss scale: minimum; an overflow at the minimum aborts the job")},
    {NUMBERS(27), OPTION_INT("loss-scale-window", trine_config, precision.loss_scale_window, "N", 1, INT_MAX, 1000,
         "dynamic loss scale: consecutive steps without overflow before it is doubled")},
    {NUMBERS(28), OPTION_INT("hysteresis", trine_config, precision.hysteresis, "N", 1, INT_MAX, 2,
         "dynamic loss scale: overflows before it is halved")},

    {OPTION_HEADING("Training")},
    {LAYOUT(65), OPTION_INT("micro-batch-size", trine_config, micro_batch_size, "N", 1, CONFIG_MOST_SAMPLES, 1,
         "samples per micro-batch and dp rank")},
    {NUMBERS(30), .alias = "batch-size",
     OPTION_INT("global-batch-size", trine_config, global_batch_size, "N", 0, INT_MAX, 0,
         "samples per step over all ranks; 0: --micro-batch-size x dp")},
    {NUMBERS(31), OPTION_INT("train-iters", trine_config, train_iters, "N", 0, INT_MAX, 100,
         "number of training steps")},
    /* A trainer replaces it by --train-iters, so checkpoints and logs have that alone. */
    {NUMBERS_IF(96), OPTION_DOUBLE("epochs", trine_config, epochs, "X", 0, INFINITY, 0,
         "in place of --train-iters: train until the token file has been read X times, which may be a fraction; 0: "
         "--train-iters")},
    {NUMBERS(32), .alias = "learning-rate", OPTION_DOUBLE("lr", trine_config, optimizer.lr, "X", OPTION_FP32, 3e-4,
         "learning rate after warm-up")},
    {NUMBERS(33), OPTION_DOUBLE("min-lr", trine_config, optimizer.min_lr, "X", OPTION_FP32, 0,
         "minimum learning rate, reached at the end of the decay")},
    {NUMBERS(34), OPTION_INT("lr-warmup-iters", trine_config, optimizer.lr_warmup_iters, "N", 0, INT_MAX, 0,
         "linear warm-up steps")},
    {NUMBERS(35), OPTION_INT("lr-decay-iters", trine_config, optimizer.lr_decay_iters, "N", 0, INT_MAX, 0,
         "step at which the decay ends; 0: --train-iters")},
    {NUMBERS(36), OPTION_CHOICE("lr-decay-style", trine_config, optimizer.lr_decay_style, decays, TRINE_DECAY_COSINE,
         "learning rate decay function; wsd: --lr until the last --lr-wsd-decay-iters steps; with --max-minutes the "
         "decay starts early enough to end in time")},
    {NUMBERS_IF(76), OPTION_INT("lr-wsd-decay-iters", trine_config, optimizer.lr_wsd_decay_iters, "N", 0, INT_MAX, 0,
         "--lr-decay-style wsd: steps of its decay")},
    {NUMBERS_IF(77), OPTION_CHOICE("lr-wsd-decay-style", trine_config, optimizer.lr_wsd_decay_style, wsd_decays,
         TRINE_WSD_EXPONENTIAL, "--lr-decay-style wsd: function of its decay")},
    {NUMBERS(37), OPTION_DOUBLE("weight-decay", trine_config, optimizer.weight_decay, "X", OPTION_FP32, 0.01,
         "decoupled weight decay; not applied to biases, norms and positions")},
    {NUMBERS(38), OPTION_FLAG("decay-all", trine_config, optimizer.decay_all,
         "apply weight decay to all parameters")},
    {NUMBERS(39), OPTION_DOUBLE("adam-beta1", trine_config, optimizer.adam_beta1, "X", OPTION_FRACTION, 0.9,
         "Adam decay rate of the first moment")},
    {NUMBERS(40), OPTION_DOUBLE("adam-beta2", trine_config, optimizer.adam_beta2, "X", OPTION_FRACTION, 0.999,
         "Adam decay rate of the second moment")},
    {NUMBERS(41), OPTION_DOUBLE("adam-eps", trine_config, optimizer.adam_eps, "X", OPTION_POSITIVE, 1e-8,
         "Adam epsilon, added to the denominator")},
    {NUMBERS(42), OPTION_DOUBLE("clip-grad", trine_config, optimizer.clip_grad, "X", 0, INFINITY, 1,
         "maximum global gradient norm; 0: no clipping")},
    {NUMBERS(43), OPTION_U64("seed", trine_config, data.seed, "N", 1234,
         "random seed of initial parameters and sample order")},
    {NUMBERS_IF(72), OPTION_FLAG("no-shuffle", trine_config, data.in_order,
         "take the samples of the training files in their order")},

    {OPTION_HEADING("Checkpoints")},
    {OF_CHECKPOINT, GIVEN, OPTION_ADDS, OPTION_STRING("save", trine_checkpoint, save, "DIR", NULL,
         "folder for checkpoints; saves at the end of the run, and on SIGINT (Ctrl-C), SIGTERM, SIGHUP or SIGUSR1 to "
         "any rank, with exit status 75")},
    {OF_CHECKPOINT, JOINT, OPTION_INT("save-interval", trine_checkpoint, save_interval, "N", 0, INT_MAX, 0,
         "steps between checkpoints; 0: only at the end")},
    {OF_CHECKPOINT, JOINT, OPTION_INT("keep", trine_checkpoint, keep, "N", 0, INT_MAX, 0,
         "number of newest checkpoints to keep; 0: all")},
    {OF_CHECKPOINT, JOINT, OPTION_TYPE("save-at-tokens", trine_checkpoint, save_at_tokens, &marks_type, "LIST",
         "counts of tokens, e.g. 1M,10M,100M: save after the step that reaches each; --keep never removes these "
         "checkpoints")},
    {OF_CHECKPOINT, GIVEN_ASSUMED, OPTION_WORDS(newest), OPTION_READS, OPTION_STRING("load", trine_checkpoint,
         load, "PATH", NULL,
         "checkpoint, folder of checkpoints or Hugging Face folder to load, saved under any layout; auto: the newest "
         "checkpoint in --save, if any")},
    {OF_CHECKPOINT, JOINT_ASSUMED, .alias = "finetune", OPTION_FLAG("load-weights-only", trine_checkpoint,
          load_weights_only,
         "load only the weights; start at step 0 with a new optimizer")},
    {OF_CHECKPOINT, GIVEN_ASSUMED, OPTION_READS, OPTION_STRING("pretrained-checkpoint",
         trine_checkpoint, pretrained, "PATH", NULL,
         "with --load auto: a checkpoint to load the weights from, as with --finetune, while --save has no "
         "checkpoint yet")},
    {OF_CHECKPOINT, GIVEN_ASSUMED, OPTION_READS, OPTION_STRING("adapter", trine_checkpoint, adapter, "FOLDER", NULL,
         "low-rank adapters as PEFT writes them, to add to the weights that a new run begins with")},
    {OF_CHECKPOINT, JOINT_ASSUMED, .alias = "exit-duration-in-mins", OPTION_DOUBLE("max-minutes", trine_checkpoint,
         max_minutes, "X", 0, INFINITY, 0,
         "save and exit with status 75 after this many minutes; 0: never; --lr-decay-style wsd: decay and end "
         "before")},

    {OPTION_HEADING("Data and output")},
    {GIVEN_ASSUMED, .room_base = CONFIG_RUN, OPTION_TOKENS, OPTION_BLEND("data-path", trine_config, data.data_path,
         trine_run, data_words, "FILE",
         "training token files or glob patterns; a blend: weights, each followed by its files, e.g. 0.7 'a_*.bin' "
         "0.3 b.bin")},
    {GIVEN, .room_base = CONFIG_RUN, OPTION_WORDS(no_file), OPTION_TOKENS, OPTION_BLEND("val-data-path", trine_config,
         data.val_data_path, trine_run, val_data_words, "FILE",
         "the same for validation; none: no validation; otherwise PREFIX_val.bin beside a --data-path "
         "PREFIX_train.bin, if it exists")},
    {GIVEN_ASSUMED, .alias = "tokenizer-model", OPTION_READS, OPTION_STRING("tokenizer", trine_config, data.tokenizer,
         "PATH", NULL,
         "tokenizer.json or its folder: must fit the vocabulary and the token files, and is saved in checkpoints; "
         "otherwise that of --load, if it has one")},
    {NUMBERS_IF(73), .bare = "yes", .metavar = "[no]", OPTION_CHOICE("reset-attention-mask", trine_config,
         data.reset_attention_mask, resets, TRINE_RESET_AUTO,
         "a token attends to tokens of its own document only; auto: if the token files say where documents begin")},
    {NUMBERS_IF(74), .bare = "yes", .metavar = "[no]", OPTION_CHOICE("reset-position-ids", trine_config,
         data.reset_position_ids, resets, TRINE_RESET_AUTO,
         "positions begin at 0 in each document; auto: as above")},
    {NUMBERS_IF(75), OPTION_INT("end-token-id", trine_config, data.end_token, "N", -1, INT_MAX, -1,
         "the id that ends a document, for --reset-... with files that do not say where documents begin; -1: the "
         "tokenizer's")},
    {OF_RUN, OWN, OPTION_INT("log-interval", trine_run, log_interval, "N", 0, INT_MAX, 1, "steps between log lines")},
    {OF_RUN, JOINT, OPTION_INT("eval-interval", trine_run, eval_interval, "N", 0, INT_MAX, 0,
         "steps between validations; 0: only before the first and after the last step")},
    {JOINT, OPTION_INT("eval-iters", trine_config, eval_iters, "N", 1, INT_MAX, 10, "global batches per validation")},
    {OF_RUN, OWN, OPTION_WRITES, OPTION_STRING("log", trine_run, log, "FILE", NULL,
         "write metrics as JSON lines; continued when --load resumes a run")},
    {OF_RUN, GIVEN, OPTION_ADDS, OPTION_STRING("tensorboard", trine_run, tensorboard, "DIR", NULL,
         "write metrics as TensorBoard's event files into this folder; continued when --load resumes a run")},
    {OF_RUN, OWN, OPTION_CHOICE("progress", trine_run, progress, progresses, TRINE_PROGRESS_AUTO,
         "a progress bar below the lines; auto: where standard output is a terminal; line: never; bar: always")},
    {OF_RUN, JOINT, OPTION_DOUBLE("peak-tflops", trine_run, peak_tflops, "X", 0, INFINITY, 0,
         "peak TFLOP/s of one rank, for util; 0: on cpu, in runs of 50 steps or more, the measured rate of its "
         "products")},
    {OF_RUN, JOINT, OPTION_FLAG("profile", trine_run, profile, "profile all steps except the first two")},
    {OF_RUN, OWN, OPTION_WRITES, OPTION_STRING("profile-json", trine_run, profile_json, "FILE", NULL,
         "write the profile as one line of JSON, replacing the file; implies --profile")},
    {GIVEN, OPTION_WRITES, OPTION_STRING("trace", trine_config, trace.file, "FILE", NULL,
         "write all ranks' instructions, waits, collectives and messages of some steps as one file for "
         "ui.perfetto.dev, replacing it")},
    {JOINT, OPTION_TYPE("trace-steps", trine_config, trace.steps, &steps_type, "A-B",
         "--trace: the first and the last step, or one step; otherwise 10-12")},
    {JOINT, OPTION_FLAG("no-ring", trine_config, trace.no_ring,
         "do not record the last two steps, which are written when a run hangs, fails, meets a NaN or gets SIGUSR2")},

    {OPTION_HEADING("Inspection without running")},
    {OF_RUN, OWN, OPTION_FLAG("dry-run", trine_run, dry_run,
         "print memory, bubble and traffic, then exit; no mpirun needed")},
    {OF_RUN, OWN, OPTION_FLAG_OF("explain", trine_run, explain, explanations, explain_what,
         "print every stage's program, or the model's layers, then exit; no mpirun needed")},
    {OF_RUN, OWN, OPTION_FLAG("layouts", trine_run, layouts,
         "print the layouts on which the run can continue when --ranks ranks are left, the best first, then exit; no "
         "mpirun needed")},
    {OF_RUN, OWN, OPTION_INT("ranks", trine_run, ranks, "N", 0, INT_MAX, 0,
         "number of ranks assumed by --dry-run, --explain and --layouts; 0: dp x tp x pp")},
    {OF_RUN, OWN, OPTION_WRITES, OPTION_STRING("export-schedule", trine_run, export_schedule, "FILE", NULL,
         "write the schedule in the CSV of torch.distributed.pipelining, replacing the file; also with --dry-run and "
         "--explain")},
    {OF_RUN, OWN, .alias = "h", OPTION_FLAG("help", trine_run, help, "print this help and exit")},
};

#endif
