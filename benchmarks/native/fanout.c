/* The floor of a broadcast: accepts subscribers, and sends each of them the same bytes from a loop on two threads.
   Commands come on standard input, a line each, and are answered on standard output, times in nanoseconds of CLOCK_MONOTONIC:
   "count" -> subscribers; "run" -> when it began and ended; "usage" -> processor time; "quit". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, RANGE = 256, MAX_SUBSCRIBERS = 1 << 20, MAX_MESSAGE = 1 << 16 };

static int sockets[MAX_SUBSCRIBERS];
static atomic_int count;
static atomic_int next;
static char message[MAX_MESSAGE];
static size_t message_bytes;
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

static void send_all(int socket)
{
    for (size_t sent = 0; sent < message_bytes;) {
        ssize_t taken = send(socket, message + sent, message_bytes - sent, MSG_NOSIGNAL);
        if (taken < 0 && errno != EINTR)
            fail("send");
        sent += taken > 0 ? (size_t)taken : 0;
    }
}

static void *work(void *argument)
{
    for (;;) {
        pthread_barrier_wait(&start);
        int total = count;
        for (int first; (first = atomic_fetch_add(&next, RANGE)) < total;) {
            int last = first + RANGE < total ? first + RANGE : total;
            for (int index = first; index < last; index++)
                send_all(sockets[index]);
        }
        pthread_barrier_wait(&end);
    }
    return argument;
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
    message_bytes = arguments == 2 ? (size_t)atoi(values[1]) : 0;
    if (message_bytes == 0 || message_bytes > MAX_MESSAGE) {
        fprintf(stderr, "usage: fanout <bytes of a message>\n");
        return 2;
    }
    memset(message, 'x', message_bytes);

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
        pthread_create(&thread, NULL, work, NULL);
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
