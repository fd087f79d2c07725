/* Loads of the co-run bench: each keeps one resource busy and counts what it gets done.
 *
 * usage: corun_loads KIND THREADS FILE
 *   spin    integer arithmetic in registers               unit: 20,000 rounds
 *   stream  a[i] = b[i] + 3 c[i] over 96 MiB arrays        unit: 128 KiB of each array
 *   cached  pread of a file that the page cache holds      unit: 256 KiB
 *   write   O_DIRECT pwrite                                unit: 256 KiB
 *   nap     50 units of spin, then a sleep of 1 ms          unit: both
 *
 * Reads lines "THREADS_NOW BEGIN_NS START_NS END_NS STOP_NS" (CLOCK_MONOTONIC) from stdin, works from
 * BEGIN to STOP, and answers "UNITS CPU_NS WINDOW_NS" as sampled at START and END; says "ready"
 * first. Work goes on around the window because on full cores a sample may come late; it begins
 * later than the command because on full cores the command for the other load may come late.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 4, ROUNDS = 20000, CHUNK = 16384, BLOCK = 262144 };
static const size_t ELEMENTS = 12u << 20;
static const off_t FILE_BYTES = 128 << 20;

struct worker {
    _Alignas(128) _Atomic uint64_t units;
    double *a, *b, *c;
    char *buffer;
    off_t at;
    uint64_t seed;
    size_t position;
};

static struct worker workers[MOST_THREADS];
static const char *kind;
static int file = -1;
static _Atomic int active;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

static void spin(struct worker *w) {
    uint64_t x = w->seed;
    for (int i = 0; i < ROUNDS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    w->seed = x;
}

static void stream(struct worker *w) {
    double *a = w->a + w->position, *b = w->b + w->position, *c = w->c + w->position;
    for (int i = 0; i < CHUNK; i++) a[i] = b[i] + 3.0 * c[i];
    w->position = (w->position + CHUNK) % ELEMENTS;
}

static void transfer(struct worker *w, int writes) {
    ssize_t done = writes ? pwrite(file, w->buffer, BLOCK, w->at)
                          : pread(file, w->buffer, BLOCK, w->at);
    if (done != BLOCK) die(writes ? "pwrite" : "pread");
    w->at = (w->at + BLOCK) % FILE_BYTES;
}

static void *work(void *argument) {
    struct worker *w = argument;
    int index = (int)(w - workers);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (atomic_load(&active) <= index) pthread_cond_wait(&wake, &lock);
        pthread_mutex_unlock(&lock);
        while (atomic_load_explicit(&active, memory_order_relaxed) > index) {
            if (kind[0] == 's' && kind[1] == 'p') {
                spin(w);
            } else if (kind[0] == 's') {
                stream(w);
            } else if (kind[0] == 'c') {
                transfer(w, 0);
            } else if (kind[0] == 'w') {
                transfer(w, 1);
            } else {
                for (int i = 0; i < 50; i++) spin(w);
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            }
            atomic_fetch_add_explicit(&w->units, 1, memory_order_relaxed);
        }
    }
    return NULL;
}

static uint64_t total(void) {
    uint64_t sum = 0;
    for (int i = 0; i < MOST_THREADS; i++) sum += atomic_load(&workers[i].units);
    return sum;
}

static void open_file(const char *path) {
    int direct = kind[0] == 'w';
    file = open(path, O_RDWR | O_CREAT | (direct ? O_DIRECT : 0), 0600);
    if (file < 0) die(path);
    char *block;
    if (posix_memalign((void **)&block, 4096, BLOCK) != 0) die("posix_memalign");
    memset(block, 7, BLOCK);
    for (off_t at = 0; at < FILE_BYTES; at += BLOCK)
        if (pwrite(file, block, BLOCK, at) != BLOCK) die("pwrite");
    if (fsync(file) != 0) die("fsync");
    free(block);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    kind = argv[1];
    int threads = atoi(argv[2]);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    if (kind[0] == 'c' || kind[0] == 'w') open_file(argv[3]);
    for (int i = 0; i < threads; i++) {
        struct worker *w = &workers[i];
        w->seed = 88172645463325252u + (uint64_t)i;
        w->at = FILE_BYTES / threads / BLOCK * BLOCK * i;
        if (posix_memalign((void **)&w->buffer, 4096, BLOCK) != 0) die("posix_memalign");
        memset(w->buffer, i, BLOCK);
        if (kind[0] == 's' && kind[1] == 't') {
            double **arrays[3] = {&w->a, &w->b, &w->c};
            for (int k = 0; k < 3; k++) {
                if (posix_memalign((void **)arrays[k], 1 << 21, ELEMENTS * sizeof(double)) != 0)
                    die("posix_memalign");
                madvise(*arrays[k], ELEMENTS * sizeof(double), MADV_HUGEPAGE);
                for (size_t j = 0; j < ELEMENTS; j++) (*arrays[k])[j] = (double)(j + k);
            }
        }
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, w) != 0) die("pthread_create");
    }
    /* The sampler (this thread alone) should not queue behind the workers. */
    setpriority(PRIO_PROCESS, 0, -20);
    printf("ready\n");
    fflush(stdout);
    int wanted;
    unsigned long long begin, start, end, stop;
    while (scanf("%d %llu %llu %llu %llu", &wanted, &begin, &start, &end, &stop) == 5) {
        sleep_until(begin);
        pthread_mutex_lock(&lock);
        atomic_store(&active, wanted);
        pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&lock);
        sleep_until(start);
        uint64_t units = total(), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        uint64_t from = now_ns(CLOCK_MONOTONIC);
        sleep_until(end);
        units = total() - units;
        cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        from = now_ns(CLOCK_MONOTONIC) - from;
        sleep_until(stop);
        atomic_store(&active, 0);
        printf("%llu %llu %llu\n", (unsigned long long)units, (unsigned long long)cpu,
               (unsigned long long)from);
        fflush(stdout);
    }
    return 0;
}
