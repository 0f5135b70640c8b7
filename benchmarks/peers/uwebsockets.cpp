// uWebSockets as a server of the broadcast suite: all clients are in one topic, and each run publishes one message to it.
// Commands come on standard input, a line each, and are answered on standard output, times in nanoseconds of CLOCK_MONOTONIC:
// "count" -> clients; "run" -> when it began and ended; "usage" -> processor time; "memory" -> resident bytes.
#include "App.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

struct Client {};

static std::atomic<int> count;

static long long now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long processor_time()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000LL + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
}

static long long resident_bytes()
{
    long long pages = 0;
    if (FILE *file = fopen("/proc/self/statm", "r")) {
        if (fscanf(file, "%*s %lld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

int main(int arguments, char **values)
{
    std::string message(arguments == 2 ? strtoul(values[1], nullptr, 10) : 0, 'x');
    uWS::App app;
    app.ws<Client>("/socket", {
        .compression = uWS::DISABLED,
        .idleTimeout = 0,
        .maxBackpressure = 1 << 20,
        .sendPingsAutomatically = false,
        .open = [](auto *client) {
            client->subscribe("everybody");
            count++;
        },
        .close = [](auto *, int, std::string_view) { count--; },
    });
    int port = 0;
    app.listen("127.0.0.1", 0, [&port](us_listen_socket_t *listener) { port = listener ? us_socket_local_port(0, (us_socket_t *)listener) : 0; });
    if (port == 0) {
        std::cerr << "uWebSockets does not listen." << std::endl;
        return 1;
    }
    std::cout << port << std::endl;

    // One thread serves all clients, as its documents advise; only that thread may publish.
    uWS::Loop *loop = uWS::Loop::get();
    std::thread([&app, &message, loop] {
        for (std::string command; std::getline(std::cin, command);) {
            if (command.rfind("run", 0) == 0) {
                long long began = now();
                loop->defer([&app, &message, began] {
                    app.publish("everybody", message, uWS::OpCode::TEXT);
                    std::cout << began << ' ' << now() << std::endl;
                });
            } else if (command.rfind("usage", 0) == 0) {
                std::cout << processor_time() << std::endl;
            } else if (command.rfind("memory", 0) == 0) {
                std::cout << resident_bytes() << std::endl;
            } else {
                std::cout << count << std::endl;
            }
        }
        _exit(0);
    }).detach();
    app.run();
}
