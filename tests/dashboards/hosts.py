"""The machines themselves, as node-exporter tells."""

from tests.dashboards.panels import RATE, Board, lines

DISKS = 'fstype!~"tmpfs|ramfs|overlay|squashfs|nsfs|devtmpfs"'
CARDS = 'device!~"lo|veth.*|docker.*|br-.*"'

HOSTS = Board(
    "hearth-hosts",
    "Hearth: hosts",
    "Processor, memory, disk and network of each machine.",
    [
        lines(
            "Processor",
            "Share of all cores that is in use.",
            (f'1 - avg by (node) (rate(node_cpu_seconds_total{{mode="idle"}}{RATE}))', "{{node}}"),
            unit="percentunit",
        ),
        lines(
            "Load",
            "Tasks that run or wait for a core or a disk, on average over a minute.",
            ("max by (node) (node_load1)", "{{node}}"),
        ),
        lines(
            "Memory in use",
            "Share of the memory that is not available to programs.",
            (
                "1 - max by (node) (node_memory_MemAvailable_bytes)"
                " / max by (node) (node_memory_MemTotal_bytes)",
                "{{node}}",
            ),
            unit="percentunit",
        ),
        lines(
            "Disk in use",
            "By file system.",
            (
                f"1 - max by (node, device) (node_filesystem_avail_bytes{{{DISKS}}})"
                f" / max by (node, device) (node_filesystem_size_bytes{{{DISKS}}})",
                "{{node}} {{device}}",
            ),
            unit="percentunit",
        ),
        lines(
            "Disk traffic",
            "Bytes per second.",
            (f"sum by (node) (rate(node_disk_read_bytes_total{RATE}))", "{{node}} read"),
            (f"sum by (node) (rate(node_disk_written_bytes_total{RATE}))", "{{node}} written"),
            unit="Bps",
        ),
        lines(
            "Network",
            "Bytes per second, without loopback and containers.",
            (
                f"sum by (node) (rate(node_network_receive_bytes_total{{{CARDS}}}{RATE}))",
                "{{node}} in",
            ),
            (
                f"sum by (node) (rate(node_network_transmit_bytes_total{{{CARDS}}}{RATE}))",
                "{{node}} out",
            ),
            unit="Bps",
        ),
        lines(
            "Clock",
            "Error of the clock as estimated by the kernel; without a time service it is always 0.",
            ("max by (node) (abs(node_timex_offset_seconds))", "{{node}}"),
            unit="s",
        ),
        lines(
            "Uptime",
            "Since the last start of the machine.",
            ("max by (node) (node_time_seconds - node_boot_time_seconds)", "{{node}}"),
            unit="s",
        ),
    ],
)
