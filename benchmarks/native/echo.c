/* The floor of an echo: sends back what it reads, on one thread or several with an epoll and connections of its own each.
   Commands come on standard input, a line each: "usage" -> processor time in nanoseconds; "quit". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_THREADS = 64, EVENTS = 256, BUFFER = 64 * 1024 };

/* What was read and not sent yet: a connection reads only when there is nothing. */
struct connection {
    int socket;
    size_t begin, end;
    char bytes[BUFFER];
};

static int epolls[MAX_THREADS];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void drop(struct connection *connection)
{
    close(connection->socket);
    free(connection);
}

static int would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Returns 0 when the connection is gone. */
static int echo(int epoll, struct connection *connection)
{
    int was_blocked = connection->end > 0;
    if (!was_blocked) {
        ssize_t received = recv(connection->socket, connection->bytes, BUFFER, 0);
        if (received == 0 || (received < 0 && !would_block()))
            return 0;
        connection->end = received > 0 ? (size_t)received : 0;
    }
    while (connection->begin < connection->end) {
        ssize_t sent = send(connection->socket, connection->bytes + connection->begin, connection->end - connection->begin, MSG_NOSIGNAL);
        if (sent < 0 && !would_block())
            return 0;
        if (sent < 0)
            break;
        connection->begin += (size_t)sent;
    }
    int is_blocked = connection->begin < connection->end;
    if (!is_blocked)
        connection->begin = connection->end = 0;
    if (is_blocked != was_blocked) {
        struct epoll_event event = { .events = is_blocked ? EPOLLOUT : EPOLLIN, .data.ptr = connection };
        epoll_ctl(epoll, EPOLL_CTL_MOD, connection->socket, &event);
    }
    return 1;
}

static void *work(void *argument)
{
    int epoll = *(int *)argument;
    struct epoll_event events[EVENTS];
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int index = 0; index < ready; index++) {
            struct connection *connection = events[index].data.ptr;
            if (!echo(epoll, connection))
                drop(connection);
        }
    }
    return NULL;
}

struct acceptor {
    int listener, threads;
};

static void *accept_all(void *argument)
{
    struct acceptor *acceptor = argument;
    int one = 1;
    for (unsigned turn = 0;; turn++) {
        int socket = accept4(acceptor->listener, NULL, NULL, SOCK_NONBLOCK);
        struct connection *connection = calloc(1, sizeof *connection);
        if (socket < 0 || !connection)
            fail("accept");
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connection->socket = socket;
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
        epoll_ctl(epolls[turn % (unsigned)acceptor->threads], EPOLL_CTL_ADD, socket, &event);
    }
    return NULL;
}

int main(int arguments, char **values)
{
    struct acceptor acceptor = { .threads = arguments == 2 ? atoi(values[1]) : 0 };
    if (acceptor.threads < 1 || acceptor.threads > MAX_THREADS) {
        fprintf(stderr, "usage: echo <threads>\n");
        return 2;
    }

    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    acceptor.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (acceptor.listener < 0 || bind(acceptor.listener, (struct sockaddr *)&address, length) || listen(acceptor.listener, 4096)
        || getsockname(acceptor.listener, (struct sockaddr *)&address, &length))
        fail("listen");

    pthread_t thread;
    for (int index = 0; index < acceptor.threads; index++) {
        epolls[index] = epoll_create1(0);
        pthread_create(&thread, NULL, work, &epolls[index]);
    }
    pthread_create(&thread, NULL, accept_all, &acceptor);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);

    for (char command[32]; fgets(command, sizeof command, stdin) && strncmp(command, "quit", 4);) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("%lld\n", (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL);
        fflush(stdout);
    }
    return 0;
}
