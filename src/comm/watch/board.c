#include "comm/watch/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/input.h"
#include "base/signals.h"
#include "base/status.h"
#include "comm/watch/launch.h"

#define FOLDER "/dev/shm"
#define NAME   "trine-places-"
/* Seconds that a start gives to what ended jobs have left; the next start has the rest. */
#define SWEEP 1.0
/* Attempts to open a board that others open and remove meanwhile, and seconds between two. */
#define OPENINGS 100
#define APART    0.01
/* Seconds between two signs of life of a rank that observes others. */
#define LOOK 0.1
/* Attempts to read a slot while it is being written. */
#define TRIES 100

typedef struct {
    _Atomic uint64_t token;    /* 0: nobody has joined yet */
    _Atomic int32_t reporter;  /* pid of the reporting process; 0: none */
    _Atomic uint64_t answered; /* the last alarm that was answered */
    _Atomic uint32_t said;     /* a bit for each word (board_may_say) */
    _Atomic int64_t wrote;     /* seconds of the day's clock at the last board_claim_file */
} board_header;

typedef struct {
    _Atomic uint32_t version; /* odd while the place is being written; read alone, so it is first */
    _Atomic uint32_t beats, looks;
    rank_place at;
} slot;

/* A slot lies within one page, which its owner allocates before anybody touches it. The header has a page, too. Pages
 * are the system's: 4096 bytes, or 65536 on many Arm systems. */
#define SLOT       1024
#define LEAST_PAGE 4096
_Static_assert(sizeof(slot) <= SLOT && LEAST_PAGE % SLOT == 0, "a slot must lie in a page");
_Static_assert(sizeof(board_header) <= LEAST_PAGE, "the header must lie in a page");

static off_t page_bytes(void) {
    return (off_t)sysconf(_SC_PAGESIZE);
}

static off_t slot_at(int index) {
    return page_bytes() + (off_t)index * SLOT;
}

/* This process's board; all zero if it has none. */
static struct {
    int users;
    launch start;
    char path[64]; /* "": a private board */
    bool sealed;   /* path is no longer this board */
    int fd;        /* with a shared lock, until the process ends */
    char *map;     /* of the header; the own slot's page is mapped separately */
    char *page;
    board_header *header;
    slot *own;
    void *kept;    /* board_keep's; NULL: none */
    int neighbour; /* the slot of board_neighbour_gone; -1: not known yet */
} board;

static board_header own_header;
static slot own_slot;

/* Whether the process is visible here; then *state is its letter, 'X' if it is gone. */
static bool look_up(const rank_place *p, char *state) {
    process is;
    if (!p->pids || p->pids != process_space()) return false;
    *state = process_of(p->pid, &is) && is.start == p->start ? is.state : 'X';
    return true;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* The first bytes of a slot. Reads the file instead of a mapping: a page that nobody has written then costs no
 * memory. */
static bool read_slot(int index, void *to, size_t bytes) {
    if (!board.path[0]) {
        memcpy(to, &own_slot, bytes);
        return index == 0;
    }
    return pread(board.fd, to, bytes, slot_at(index)) == (ssize_t)bytes;
}

/* If the slot is being written, returns its current contents. The version before the contents and the version after
 * them are reads of their own, which the fences keep in order: a processor may otherwise load the contents first. */
static bool read_place(int index, slot *s) {
    for (int i = 0; i < TRIES; i++) {
        uint32_t before, after;
        if (!read_slot(index, &before, sizeof before)) return false;
        atomic_thread_fence(memory_order_acquire);
        if (!read_slot(index, s, sizeof *s)) return false;
        atomic_thread_fence(memory_order_acquire);
        if (!read_slot(index, &after, sizeof after)) return false;
        if (!(before & 1) && before == after) break;
    }
    rank_place *p = &s->at;
    p->host[sizeof p->host - 1] = p->call[sizeof p->call - 1] = '\0';
    p->doing[sizeof p->doing - 1] = p->file[sizeof p->file - 1] = '\0';
    return p->size > 0;
}

/* One writer: no read-modify-write is needed. */
static void raise_version(slot *s) {
    uint32_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    atomic_store_explicit(&s->version, version + 1, memory_order_relaxed);
}

rank_place *board_write(void) {
    slot *s = board.own ? board.own : &own_slot;
    raise_version(s);
    atomic_thread_fence(memory_order_release);
    return &s->at;
}

void board_written(void) {
    atomic_thread_fence(memory_order_release);
    raise_version(board.own ? board.own : &own_slot);
}

void board_beat(void) {
    if (board.own) atomic_fetch_add_explicit(&board.own->beats, 1, memory_order_relaxed);
}

void board_look(void) {
    if (board.own) atomic_fetch_add_explicit(&board.own->looks, 1, memory_order_relaxed);
}

/* ---- Joining and leaving --------------------------------------------------------------------- */

/* Removes a board that no process has open, whatever is in it: each of its processes has it locked until it ends. */
static bool remove_if_dead(const char *path) {
    int fd;
    if (input_find(&fd, path) != TRINE_OK) status_clear();
    bool dead = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && input_is_named(fd, path) &&
                unlink(path) == 0;
    if (fd >= 0) close(fd);
    return dead;
}

/* Removes the boards of this user's ended jobs, and says so. One process at a time: the ranks of a job start together,
 * and one is enough. */
static void sweep(void) {
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    char last[sizeof FOLDER + sizeof entry->d_name + 1], text[sizeof last + 80];
    int removed = 0;
    double start = clock_seconds();
    bool alone = folder && flock(dirfd(folder), LOCK_EX | LOCK_NB) == 0;
    while (alone && clock_seconds() - start < SWEEP && (entry = readdir(folder)) != NULL) {
        char path[sizeof last];
        struct stat is;
        if (strncmp(entry->d_name, NAME, strlen(NAME)) != 0) continue;
        snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        if (lstat(path, &is) != 0 || !S_ISREG(is.st_mode) || is.st_uid != geteuid()) continue;
        if (!remove_if_dead(path)) continue;
        removed++;
        strcpy(last, path);
    }
    if (folder) closedir(folder);
    if (!removed) return;
    snprintf(text, sizeof text, "removed %d board%s that ended jobs have left: %s%s", removed,
             removed > 1 ? "s" : "", removed > 1 ? "the last was " : "", last);
    signals_say(text);
}

/* Keeps others from removing the board. What is in a board that nobody has locked was left by an earlier job of this
 * name. False: another process is about to remove it. Without such locks all boards are kept. */
static bool lock_board(int fd) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && ftruncate(fd, 0) != 0) return false;
    return flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* -1: it cannot be opened. */
static int open_board(const char *path) {
    for (int i = 0; i < OPENINGS; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) return -1;
        if (lock_board(fd) && input_is_named(fd, path)) return fd;
        close(fd);
        clock_nap(APART);
    }
    return -1;
}

/* Allocates memory for the header and for this rank's slot now, instead of when they are
 * touched. */
static bool take_pages(int fd, off_t own) {
    off_t page = page_bytes();
    return fallocate(fd, 0, 0, page) == 0 && fallocate(fd, 0, own / page * page, page) == 0;
}

static void *map_page(int fd, off_t at) {
    void *page = mmap(NULL, (size_t)page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    return page == MAP_FAILED ? NULL : page;
}

/* No other process of this job uses this rank's slot; one that an earlier process left is free. */
static bool is_taken(const slot *s) {
    char state;
    return s->at.size > 0 && s->at.pid != getpid() && !(look_up(&s->at, &state) && state == 'X');
}

static bool attach(int fd, int rank) {
    off_t own = slot_at(rank), page = page_bytes();
    if (!take_pages(fd, own)) return false;
    board.map = map_page(fd, 0);
    board.page = map_page(fd, own / page * page);
    if (!board.map || !board.page) return false;
    board.header = (board_header *)(void *)board.map;
    board.own = (slot *)(void *)(board.page + own % page);
    return !is_taken(board.own);
}

static void detach(void) {
    if (board.kept) board_keep_free(board.kept);
    if (board.map) munmap(board.map, (size_t)page_bytes());
    if (board.page) munmap(board.page, (size_t)page_bytes());
    if (board.fd >= 0) close(board.fd);
    board.map = board.page = NULL;
    board.fd = -1;
}

static bool join_shared(void) {
    if (!board.start.size) return false;
    snprintf(board.path, sizeof board.path, FOLDER "/" NAME "%016" PRIx64, board.start.job);
    sweep();
    board.fd = open_board(board.path);
    bool joined = board.fd >= 0 && attach(board.fd, board.start.rank);
    if (board.fd >= 0 && !board.own) unlink(board.path); /* no space left */
    if (!joined) detach();
    return joined;
}

uint64_t board_random(void) {
    uint64_t number = 0;
    while (getrandom(&number, sizeof number, 0) != sizeof number || !number) continue;
    return number;
}

static void init_slot(slot *s) {
    process own;
    uint64_t none = 0;
    rank_place *p = &s->at;
    memset(p, 0, sizeof *p);
    p->rank = board.start.size ? board.start.rank : 0;
    p->size = board.start.size ? board.start.size : 1;
    p->pid = (int32_t)getpid();
    p->pids = process_space();
    p->group = p->peer = -1;
    if (process_of(p->pid, &own)) p->start = own.start;
    if (gethostname(p->host, sizeof p->host - 1) != 0) strcpy(p->host, "unknown");
    atomic_compare_exchange_strong(&board.header->token, &none, board_random());
}

static atomic_bool leaving;

static void take_slot(void) {
    board.fd = -1;
    board.neighbour = -1;
    board.sealed = false;
    if (!join_shared()) {
        memset(&own_header, 0, sizeof own_header);
        memset(&own_slot, 0, sizeof own_slot);
        board.header = &own_header;
        board.own = &own_slot;
        board.path[0] = '\0';
    }
    board_write();
    init_slot(board.own);
    board_written();
}

static void leave_slot(void) {
    board_write()->size = 0;
    board_written();
    board_seal();
    detach();
    board.own = NULL;
    board.header = NULL;
    board.path[0] = '\0';
}

void board_ask(void) {
    if (!board.users) board.start = launch_ask();
}

void board_join(void) {
    if (board.users++) return;
    leaving = false;
    board.start = launch_ask();
    take_slot();
}

void board_move(uint64_t world) {
    if (board.users != 1 || !board.path[0]) return;
    leave_slot();
    board.start.job = launch_mix(board.start.job, world);
    take_slot();
}

void board_seal(void) {
    if (board.path[0] && !board.sealed && input_is_named(board.fd, board.path)) unlink(board.path);
    board.sealed = true;
}

void board_begin_leaving(void) {
    leaving = board.users == 1;
}

bool board_is_leaving(void) {
    return leaving;
}

void board_leave(void) {
    if (board.users && !--board.users) leave_slot();
}

uint64_t board_token(void) {
    return atomic_load(&board.header->token);
}

int board_rank(void) {
    return board.own->at.rank;
}

void board_set_rank(int rank, int size, uint64_t world) {
    rank_place *p = board_write();
    p->rank = rank;
    p->size = size;
    p->world = world;
    board_written();
}

int board_expected(void) {
    return board.start.node_ranks;
}

/* ---- Observing ------------------------------------------------------------------------------- */

static rank_status state_of(const slot *before, const slot *now) {
    char letter = 'R';
    bool known = look_up(&now->at, &letter);
    if (known && (letter == 'X' || letter == 'Z')) return RANK_EXITED;
    if (known && (letter == 'T' || letter == 't')) return RANK_STOPPED;
    if (before->beats == now->beats) return RANK_STILL;
    if (now->at.file[0]) return RANK_FILES;
    return now->at.call[0] || before->looks != now->looks ? RANK_WAITS : RANK_RUNS;
}

static bool has_moved(const rank_place *before, const rank_place *now) {
    return before->calls != now->calls || before->group != now->group ||
           before->number != now->number || before->at != now->at || before->count != now->count;
}

static bool read_all(slot *slots, int most, int *count) {
    *count = 0;
    for (int i = 0; i < most; i++)
        if (read_place(i, &slots[*count])) ++*count;
    return *count > 0;
}

/* The slot of the same rank; NULL if it was not there. */
static const slot *find(const slot *slots, int count, const rank_place *p) {
    for (int i = 0; i < count; i++)
        if (slots[i].at.rank == p->rank && slots[i].at.world == p->world) return &slots[i];
    return NULL;
}

/* Other ranks may observe this one meanwhile. */
static void nap_and_look(double seconds) {
    for (double left = seconds; left > 0; left -= LOOK) {
        board_look();
        clock_nap(LOOK);
    }
}

bool board_observe(double seconds, rank_status self, sighting **all, int *count) {
    int most = board.path[0] ? board.start.size : 1, first = 0;
    slot *before = calloc((size_t)most, sizeof *before), *now = calloc((size_t)most, sizeof *now);
    *all = calloc((size_t)most, sizeof **all);
    *count = 0;
    bool made = before && now && *all;
    if (made) {
        read_all(before, most, &first);
        nap_and_look(seconds);
        read_all(now, most, count);
    }
    for (int i = 0; made && i < *count; i++) {
        const slot *then = find(before, first, &now[i].at);
        bool own = now[i].at.pid == getpid() && now[i].at.pids == process_space();
        (*all)[i].at = now[i].at;
        (*all)[i].moved = !then || has_moved(&then->at, &now[i].at);
        (*all)[i].state = (int32_t)(own ? self : state_of(then ? then : &now[i], &now[i]));
    }
    free(before);
    free(now);
    return made;
}

/* ---- The reporter ---------------------------------------------------------------------------- */

bool board_claim_report(void) {
    int32_t none = 0;
    return atomic_compare_exchange_strong(&board.header->reporter, &none, (int32_t)getpid());
}

void board_release_report(void) {
    atomic_store(&board.header->reporter, 0);
}

bool board_has_reporter(void) {
    return atomic_load(&board.header->reporter) != 0;
}

#define HUSHED (UINT32_C(1) << 31)

/* Whether no other process of this job on this node has claimed the word: by a name in the kernel's table of sockets,
 * which is free again when its process has ended. True where the launcher has not said which job this is. */
static bool claim(int word) {
    static _Atomic uint32_t own; /* the words that this process has claimed */
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    uint32_t bit = UINT32_C(1) << word;
    if (!board.start.size || atomic_fetch_or(&own, bit) & bit) return true;
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "trine-%016" PRIx64 "-says-%d",
             board.start.job, word);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool taken =
        fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) && errno == EADDRINUSE;
    if (taken) close(fd), own &= ~bit;
    return !taken;
}

bool board_may_say(int word) {
    board_header *header = board.header;
    uint32_t bit = UINT32_C(1) << word;
    if (header && (atomic_fetch_or(&header->said, bit) & (bit | HUSHED))) return false;
    return claim(word);
}

void board_hush(void) {
    if (board.header) atomic_fetch_or(&board.header->said, HUSHED);
}

bool board_claim_answer(uint64_t alarm) {
    return atomic_exchange(&board.header->answered, alarm) != alarm;
}

/* ---- Memory that outlives its process ---------------------------------------------------------- */

/* Where the memory of the rank in slot 0 lies, and the bytes from one rank's to the next; the file has pages only where
 * somebody has taken them. */
#define KEPT      ((off_t)1 << 40)
#define KEPT_MOST ((off_t)1 << 30)

static off_t kept_at(int index) {
    return KEPT + index * KEPT_MOST;
}

void *board_keep(size_t bytes) {
    off_t at = kept_at(board.start.rank);
    if (!board.path[0] || board.kept || !bytes || bytes > (size_t)KEPT_MOST) return NULL;
    if (fallocate(board.fd, 0, at, (off_t)bytes) != 0) return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, board.fd, at);
    if (p == MAP_FAILED) return NULL;
    memset(p, 0, bytes); /* a process may have had the slot before */
    board.kept = p;
    board_write()->kept = bytes;
    board_written();
    return p;
}

bool board_keep_free(void *p) {
    if (!p || p != board.kept) return false;
    size_t bytes = board.own->at.kept;
    board_write()->kept = 0;
    board_written();
    munmap(p, bytes);
    (void)fallocate(board.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kept_at(board.start.rank),
                    (off_t)bytes);
    board.kept = NULL;
    return true;
}

/* Whether the slot is used by a rank of this process's world, which may be itself. */
static bool read_fellow(int index, slot *s) {
    slot own;
    return read_place(index, s) && read_place(board.start.rank, &own) &&
           s->at.world == own.at.world;
}

static bool is_gone(const rank_place *p) {
    char letter;
    return look_up(p, &letter) && (letter == 'X' || letter == 'Z');
}

void board_kept_each(void (*each)(void *context, const rank_place *at, bool gone, const void *p,
                                  size_t bytes),
                     void *context) {
    for (int i = 0; board.path[0] && i < board.start.size; i++) {
        slot s;
        if (!read_fellow(i, &s) || !s.at.kept || s.at.kept > (uint64_t)KEPT_MOST) continue;
        size_t bytes = (size_t)s.at.kept;
        void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, board.fd, kept_at(i));
        if (p == MAP_FAILED) continue;
        each(context, &s.at, is_gone(&s.at), p, bytes);
        munmap(p, bytes);
    }
}

bool board_neighbour_gone(rank_place *at) {
    slot s;
    int size = board.start.size, own = board.start.rank;
    if (!board.path[0]) return false;
    for (int n = 1; board.neighbour < 0 && n < size; n++)
        if (read_fellow((own + n) % size, &s)) board.neighbour = (own + n) % size;
    if (board.neighbour < 0) board.neighbour = own;
    if (board.neighbour == own || !read_place(board.neighbour, &s) || !is_gone(&s.at)) return false;
    *at = s.at;
    return true;
}

bool board_claim_file(void) {
    int64_t now = (int64_t)time(NULL);
    if (!board.header) return true;
    int64_t last = atomic_load(&board.header->wrote);
    return now - last >= 2 && atomic_compare_exchange_strong(&board.header->wrote, &last, now);
}
