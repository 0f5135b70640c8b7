/* The floor of a broadcast: accepts subscribers, and sends each of them the same bytes from a loop on two threads. With a second
   argument each thread submits that many sends at once to an io_uring of its own.
   Commands come on standard input, a line each, and are answered on standard output, times in nanoseconds of CLOCK_MONOTONIC:
   "count" -> subscribers; "run" -> when it began and ended; "usage" -> processor time; "quit". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

enum { THREADS = 2, RANGE = 256, MAX_SUBSCRIBERS = 1 << 20, MAX_MESSAGE = 1 << 16, MAX_SUBMITTED = 1024 };

static int sockets[MAX_SUBSCRIBERS];
static atomic_int count;
static atomic_int next;
static char message[MAX_MESSAGE];
static size_t message_bytes;
static int submitted;
static pthread_barrier_t start, end;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long processor_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

static void send_from(int socket, size_t sent)
{
    while (sent < message_bytes) {
        ssize_t taken = send(socket, message + sent, message_bytes - sent, MSG_NOSIGNAL);
        if (taken < 0 && errno != EINTR)
            fail("send");
        sent += taken > 0 ? (size_t)taken : 0;
    }
}

#ifdef IORING_OFF_SQES
static struct ring {
    int descriptor;
    struct io_uring_params parameters;
    char *queues;
    struct io_uring_sqe *sends;
} rings[THREADS];

static void open_ring(struct ring *ring)
{
    struct io_uring_params *parameters = &ring->parameters;
    ring->descriptor = (int)syscall(SYS_io_uring_setup, MAX_SUBMITTED, parameters);
    if (ring->descriptor < 0)
        fail("io_uring_setup");
    size_t of_sends = parameters->sq_off.array + parameters->sq_entries * sizeof(unsigned);
    size_t of_results = parameters->cq_off.cqes + parameters->cq_entries * sizeof(struct io_uring_cqe);
    size_t bytes = of_sends > of_results ? of_sends : of_results;
    ring->queues = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->descriptor, IORING_OFF_SQ_RING);
    ring->sends = mmap(NULL, parameters->sq_entries * sizeof *ring->sends, PROT_READ | PROT_WRITE, MAP_SHARED, ring->descriptor, IORING_OFF_SQES);
    if (ring->queues == MAP_FAILED || ring->sends == MAP_FAILED || !(parameters->features & IORING_FEAT_SINGLE_MMAP))
        fail("io_uring");
    for (unsigned index = 0; index < parameters->sq_entries; index++)
        ((unsigned *)(ring->queues + parameters->sq_off.array))[index] = index;
}

/* MSG_DONTWAIT ends each send within the submit, as far as the socket's buffer takes it; the rest is sent behind it. */
static void submit(struct ring *ring, int first, int sends)
{
    struct io_uring_params *parameters = &ring->parameters;
    atomic_uint *tail = (atomic_uint *)(ring->queues + parameters->sq_off.tail);
    unsigned place = *tail;
    for (int index = 0; index < sends; index++)
        ring->sends[(place + (unsigned)index) % parameters->sq_entries] = (struct io_uring_sqe){
            .opcode = IORING_OP_SEND, .fd = sockets[first + index], .addr = (uintptr_t)message, .len = (unsigned)message_bytes,
            .msg_flags = MSG_NOSIGNAL | MSG_DONTWAIT, .user_data = (unsigned)(first + index),
        };
    atomic_store(tail, place + (unsigned)sends);
    if (syscall(SYS_io_uring_enter, ring->descriptor, sends, sends, IORING_ENTER_GETEVENTS, NULL, 0) != sends)
        fail("io_uring_enter");

    atomic_uint *head = (atomic_uint *)(ring->queues + parameters->cq_off.head);
    struct io_uring_cqe *results = (struct io_uring_cqe *)(ring->queues + parameters->cq_off.cqes);
    for (int index = 0; index < sends; index++) {
        struct io_uring_cqe *result = &results[*head % parameters->cq_entries];
        if (result->res < 0 && result->res != -EAGAIN) {
            errno = -result->res;
            fail("send");
        }
        send_from(sockets[result->user_data], result->res > 0 ? (size_t)result->res : 0);
        atomic_store(head, *head + 1);
    }
}
#else
static struct ring { int unused; } rings[THREADS];

static void open_ring(struct ring *ring)
{
    (void)ring;
    errno = ENOSYS;
    fail("linux/io_uring.h");
}

static void submit(struct ring *ring, int first, int sends)
{
    (void)ring, (void)first, (void)sends;
}
#endif

static void *work(void *ring)
{
    int range = submitted ? submitted : RANGE;
    for (;;) {
        pthread_barrier_wait(&start);
        int total = count;
        for (int first; (first = atomic_fetch_add(&next, range)) < total;) {
            int last = first + range < total ? first + range : total;
            if (submitted)
                submit(ring, first, last - first);
            else
                for (int index = first; index < last; index++)
                    send_from(sockets[index], 0);
        }
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void *accept_all(void *listener)
{
    int one = 1;
    for (;;) {
        int socket = accept(*(int *)listener, NULL, NULL);
        if (socket < 0 || count == MAX_SUBSCRIBERS)
            fail("accept");
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        sockets[count] = socket;
        atomic_fetch_add(&count, 1);
    }
    return NULL;
}

int main(int arguments, char **values)
{
    message_bytes = arguments > 1 ? (size_t)atoi(values[1]) : 0;
    submitted = arguments > 2 ? atoi(values[2]) : 0;
    if (message_bytes == 0 || message_bytes > MAX_MESSAGE || submitted < 0 || submitted > MAX_SUBMITTED) {
        fprintf(stderr, "usage: fanout <bytes of a message> [<sends of a submit, at most %d>]\n", MAX_SUBMITTED);
        return 2;
    }
    memset(message, 'x', message_bytes);
    for (int index = 0; submitted && index < THREADS; index++)
        open_ring(&rings[index]);

    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 4096)
        || getsockname(listener, (struct sockaddr *)&address, &length))
        fail("listen");

    pthread_t thread;
    pthread_barrier_init(&start, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    pthread_create(&thread, NULL, accept_all, &listener);
    for (int index = 0; index < THREADS; index++)
        pthread_create(&thread, NULL, work, &rings[index]);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);

    for (char command[32]; fgets(command, sizeof command, stdin) && strncmp(command, "quit", 4);) {
        if (!strncmp(command, "run", 3)) {
            next = 0;
            long long began = now();
            pthread_barrier_wait(&start);
            pthread_barrier_wait(&end);
            printf("%lld %lld\n", began, now());
        } else if (!strncmp(command, "usage", 5)) {
            printf("%lld\n", processor_time());
        } else {
            printf("%d\n", count);
        }
        fflush(stdout);
    }
    return 0;
}
