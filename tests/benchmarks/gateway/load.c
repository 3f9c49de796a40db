// Callers that send one request after the other over connections that stay open.
//
// load PORT CALLERS SECONDS STREAM KEY: one thread, epoll; STREAM is 0 or 1. Prints one JSON
// object: requests that ended, those that failed, seconds, per second, and in microseconds the
// median and the 99th percentile of the time to the first byte of the body and to its end;
// "pieces" are the reads that an answer came in.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 65536, MOST = 2000000 };

typedef struct {
    int fd, status, tail_size;
    char head[HEAD + 1], tail[5];
    size_t head_size, body_size, sent;
    bool in_body, chunked, busy;
    long length, pieces;
    double begun, first;
} connection;

static int loop_fd, port, active;
static char request[16384];
static size_t request_size;
static long done, failed, pieces, samples;
static double ends, *first_byte, *total;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void reach(connection *c) {
    int yes = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(c->fd, (void *)&there, sizeof there)) {
        perror("connect");
        exit(1);
    }
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(loop_fd, EPOLL_CTL_ADD, c->fd, &e);
}

static void ask(connection *c) {
    c->begun = now();
    c->busy = c->begun < ends;
    if (!c->busy) {
        active--;
        return;
    }
    c->head_size = c->body_size = c->sent = c->tail_size = c->pieces = 0;
    c->in_body = c->chunked = false;
    c->length = -1;
    while (c->sent < request_size) {  // A request fits into the socket's buffer.
        ssize_t n = write(c->fd, request + c->sent, request_size - c->sent);
        if (n < 0) break;
        c->sent += n;
    }
}

static void ask_anew(connection *c) {
    failed++;
    close(c->fd);
    reach(c);
    ask(c);
}

static void count(connection *c) {
    double moment = now();
    done++;
    pieces += c->pieces;
    if (c->status != 200) failed++;
    if (samples < MOST) {
        first_byte[samples] = c->first - c->begun;
        total[samples++] = moment - c->begun;
    }
    ask(c);
}

static void take_body(connection *c, const char *data, size_t size) {
    if (!c->body_size) c->first = now();
    c->body_size += size;
    c->pieces++;
    int kept = size >= 5 ? 0 : (5 - (int)size < c->tail_size ? 5 - (int)size : c->tail_size);
    memmove(c->tail, c->tail + c->tail_size - kept, kept);
    int taken = size >= 5 ? 5 : (int)size;
    memcpy(c->tail + kept, data + size - taken, taken);
    c->tail_size = kept + taken;
}

static bool is_whole(connection *c) {
    return c->chunked ? c->tail_size == 5 && !memcmp(c->tail, "0\r\n\r\n", 5) : (long)c->body_size >= c->length;
}

static void take_head(connection *c) {
    c->head[c->head_size] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return;
    c->status = atoi(c->head + 9);
    *end = 0;
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->chunked = strcasestr(c->head, "\r\ntransfer-encoding: chunked") != NULL;
    c->length = length ? atol(length + 17) : 0;
    c->in_body = true;
    size_t rest = c->head + c->head_size - (end + 4);
    if (rest) take_body(c, end + 4, rest);
}

static void take(connection *c) {
    char data[HEAD];
    for (;;) {
        char *into = c->in_body ? data : c->head + c->head_size;
        ssize_t n = read(c->fd, into, c->in_body ? sizeof data : HEAD - c->head_size);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            ask_anew(c);
            return;
        }
        if (c->in_body) take_body(c, data, n);
        else {
            c->head_size += n;
            take_head(c);
        }
        if (c->in_body && is_whole(c)) {
            count(c);
            return;
        }
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double percentile(double *values, double share) {
    return samples ? values[(long)(share * (samples - 1))] * 1e6 : 0;
}

int main(int count_of, char **argument) {
    if (count_of != 6) return 2;
    signal(SIGPIPE, SIG_IGN);
    port = atoi(argument[1]);
    active = atoi(argument[2]);
    bool stream = atoi(argument[4]);
    char body[4096];
    int size = snprintf(body, sizeof body, "{\"model\":\"fake\",\"stream\":%s,%s\"max_tokens\":64,\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},{\"role\":\"user\",\"content\":\"Rivers carry water from the hills to the sea. On their way they carve valleys, feed fields, turn mills and bear ships. Where they are wide and slow they lay down what they took. Which river do you like best, and why is that so?\"}]}", stream ? "true" : "false", stream ? "\"stream_options\":{\"include_usage\":true}," : "");
    request_size = snprintf(request, sizeof request, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nAccept: */*\r\nAuthorization: Bearer %s\r\nUser-Agent: load\r\nContent-Length: %d\r\n\r\n%s", port, argument[5], size, body);
    first_byte = malloc(MOST * sizeof(double));
    total = malloc(MOST * sizeof(double));
    loop_fd = epoll_create1(0);
    int callers = active;
    connection *all = calloc(callers, sizeof *all);
    for (int i = 0; i < callers; i++) reach(&all[i]);
    double begun = now();
    ends = begun + atof(argument[3]);
    for (int i = 0; i < callers; i++) ask(&all[i]);
    struct epoll_event events[256];
    while (active > 0 && now() < ends + 30) {
        int n = epoll_wait(loop_fd, events, 256, 1000);
        for (int i = 0; i < n; i++) {
            connection *c = events[i].data.ptr;
            if (c->busy) take(c);
        }
    }
    double took = now() - begun;
    qsort(first_byte, samples, sizeof(double), compare);
    qsort(total, samples, sizeof(double), compare);
    printf("{\"done\":%ld,\"failed\":%ld,\"unfinished\":%d,\"seconds\":%.3f,\"per_second\":%.1f,\"first_p50\":%.1f,\"first_p99\":%.1f,\"total_p50\":%.1f,\"total_p99\":%.1f,\"pieces\":%.2f}\n", done, failed, active, took, done / took, percentile(first_byte, .5), percentile(first_byte, .99), percentile(total, .5), percentile(total, .99), done ? (double)pieces / done : 0.0);
    return 0;
}
