// A model server that costs next to nothing, so that what stands in front of it can be measured.
//
// upstream PORT TOKENS INTERVAL_US: one thread, epoll. A POST whose body has "stream":true is
// answered with TOKENS events, each written by itself, so many microseconds apart (0: at once);
// any other POST with one JSON object. A body with "hold the line" is never answered. GET /stats tells
// {"served", "streams", "held", "gone", "open", "last_gone"}: requests answered, streams that came
// to their end, requests that wait for ever, callers that left before their answer was whole,
// connections, and when the last caller left (seconds of CLOCK_MONOTONIC).
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { IN = 1 << 20, OUT = 1 << 18 };

typedef struct caller {
    int fd;
    char in[IN];
    size_t in_size;
    char *out;
    size_t out_size, out_sent, out_room;
    bool waits_to_write, streams, held;
    int tokens_sent;
    double next_token;
    struct caller *before, *after;  // in the list of those that stream
} caller;

static int loop_fd, tokens;
static double interval;
static caller *streaming;
static long served, streams, held, gone, open_callers;
static double last_gone;
static char whole[2048];
static int whole_size;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void watch(caller *c, int how, bool writable) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (writable ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(loop_fd, how, c->fd, &e);
}

static void begin_stream(caller *c) {
    c->streams = true;
    c->tokens_sent = 0;
    c->before = NULL;
    c->after = streaming;
    if (streaming) streaming->before = c;
    streaming = c;
}

static void end_stream(caller *c) {
    c->streams = false;
    if (c->before) c->before->after = c->after; else streaming = c->after;
    if (c->after) c->after->before = c->before;
}

static void drop(caller *c) {
    if (c->streams || c->held) {
        gone++;
        last_gone = now();
    }
    if (c->streams) end_stream(c);
    if (c->held) held--;
    close(c->fd);
    free(c->out);
    free(c);
    open_callers--;
}

static bool flush(caller *c) {  // false: the caller is gone
    while (c->out_sent < c->out_size) {
        ssize_t n = write(c->fd, c->out + c->out_sent, c->out_size - c->out_sent);
        if (n < 0) {
            if (errno != EAGAIN) return false;
            if (!c->waits_to_write) watch(c, EPOLL_CTL_MOD, c->waits_to_write = true);
            return true;
        }
        c->out_sent += n;
    }
    c->out_sent = c->out_size = 0;
    if (c->waits_to_write) watch(c, EPOLL_CTL_MOD, c->waits_to_write = false);
    return true;
}

static bool say(caller *c, const char *text, size_t size) {
    if (c->out_size + size > c->out_room) c->out = realloc(c->out, c->out_room = 2 * (c->out_size + size));
    memcpy(c->out + c->out_size, text, size);
    c->out_size += size;
    return flush(c);
}

static bool say_token(caller *c) {
    static const char *frame = "\"created\":1790000000,\"id\":\"chatcmpl-0123456789abcdefghijklmnop\",\"model\":\"fake\",\"object\":\"chat.completion.chunk\"";
    char event[1024], chunk[1200];
    bool last = c->tokens_sent >= tokens;
    int n = last
        ? snprintf(event, sizeof event, "data: {\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"delta\":{}}],%s}\n\ndata: {\"choices\":[],%s,\"usage\":{\"completion_tokens\":%d,\"prompt_tokens\":10,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", frame, frame, tokens, tokens + 10)
        : snprintf(event, sizeof event, "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\" tok%d\"}}],%s}\n\n", c->tokens_sent, frame);
    int size = snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n%s", n, event, last ? "0\r\n\r\n" : "");
    c->tokens_sent++;
    if (last) {
        end_stream(c);
        streams++;
    }
    return say(c, chunk, size);
}

static bool say_json(caller *c, const char *body) {
    char head[2048];
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    return say(c, head, n);
}

static bool answer_get(caller *c, const char *path) {
    char body[512];
    if (!strncmp(path, "/stats", 6))
        snprintf(body, sizeof body, "{\"served\":%ld,\"streams\":%ld,\"held\":%ld,\"gone\":%ld,\"open\":%ld,\"last_gone\":%.6f}", served, streams, held, gone, open_callers, last_gone);
    else
        snprintf(body, sizeof body, "{\"status\":\"ok\",\"object\":\"list\",\"data\":[{\"id\":\"fake\",\"object\":\"model\"}]}");
    return say_json(c, body);
}

static bool answer_post(caller *c, const char *body, size_t size) {
    served++;
    if (memmem(body, size, "hold the line", 13)) {
        c->held = true;
        held++;
        return true;
    }
    if (!memmem(body, size, "\"stream\":true", 13) && !memmem(body, size, "\"stream\": true", 14))
        return say(c, whole, whole_size);
    static const char *head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    begin_stream(c);
    c->next_token = now() + interval;
    if (!say(c, head, strlen(head)) || !say_token(c)) return false;
    while (interval == 0 && c->streams)
        if (!say_token(c)) return false;
    return true;
}

static bool answer_all(caller *c) {  // every whole request that has come; false: close it
    while (!c->streams && !c->held) {
        char *end = memmem(c->in, c->in_size, "\r\n\r\n", 4);
        if (!end) return c->in_size < IN;
        size_t head = end - c->in + 4, size = head;
        *end = 0;
        char *length = strcasestr(c->in, "\r\ncontent-length:"), *chunked = strcasestr(c->in, "\r\ntransfer-encoding:");
        *end = '\r';
        if (chunked) {
            char *last = memmem(c->in + head, c->in_size - head, "0\r\n\r\n", 5);
            if (!last) return c->in_size < IN;
            size = last + 5 - c->in;
        } else if (length)
            size += atol(length + 17);
        if (size > IN) return false;
        if (c->in_size < size) return true;
        bool alive = c->in[0] == 'G' ? answer_get(c, c->in + 4) : answer_post(c, c->in + head, size - head);
        if (!alive) return false;
        memmove(c->in, c->in + size, c->in_size -= size);
    }
    return true;
}

static bool take(caller *c) {  // false: the caller is gone
    for (;;) {
        ssize_t n = read(c->fd, c->in + c->in_size, IN - c->in_size);
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN && answer_all(c);
        c->in_size += n;
    }
}

static void welcome(int listener) {
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        caller *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->out = malloc(c->out_room = 4096);
        watch(c, EPOLL_CTL_ADD, false);
        open_callers++;
    }
}

static struct timespec until_next_token(void) {
    double next = streaming->next_token;
    for (caller *c = streaming; c; c = c->after)
        if (c->next_token < next) next = c->next_token;
    double left = next - now();
    if (left < 0) left = 0;
    return (struct timespec){(time_t)left, (long)((left - (time_t)left) * 1e9)};
}

int main(int count, char **argument) {
    if (count != 4) return 2;
    signal(SIGPIPE, SIG_IGN);
    tokens = atoi(argument[2]);
    interval = atol(argument[3]) * 1e-6;
    const char *body = "{\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Rivers carry water from the hills to the sea, and on their way they carve valleys, feed fields, turn mills and bear ships; where they are wide and slow they lay down what they took, and so the plains are made.\"}}],\"created\":1790000000,\"id\":\"chatcmpl-0123456789abcdefghijklmnop\",\"model\":\"fake\",\"object\":\"chat.completion\",\"usage\":{\"completion_tokens\":64,\"prompt_tokens\":10,\"total_tokens\":74}}";
    whole_size = snprintf(whole, sizeof whole, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(argument[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&here, sizeof here) || listen(listener, 4096)) {
        perror("listen");
        return 1;
    }
    loop_fd = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    epoll_ctl(loop_fd, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        struct timespec wait;
        if (streaming && interval > 0) wait = until_next_token();
        int n = epoll_pwait2(loop_fd, events, 256, streaming && interval > 0 ? &wait : NULL, NULL);
        for (int i = 0; i < n; i++) {
            caller *c = events[i].data.ptr;
            if (!c) welcome(listener);
            else if (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) drop(c);
            else if ((events[i].events & EPOLLOUT) && !flush(c)) drop(c);
            else if ((events[i].events & EPOLLIN) && !take(c)) drop(c);
        }
        double moment = now();
        for (caller *c = interval > 0 ? streaming : NULL, *after; c; c = after) {
            after = c->after;
            if (c->next_token > moment) continue;
            c->next_token += interval;
            if (!say_token(c)) drop(c);
        }
    }
}
