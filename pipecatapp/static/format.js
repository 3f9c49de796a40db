// How values read to a person.

export const STATE_WORDS = {
  idle: "Not started",
  queued: "Queued",
  running: "Running",
  waiting: "Waiting",
  done: "Done",
  skipped: "Skipped",
  failed: "Failed",
  cancelled: "Cancelled",
}

/** The effect of a tool, in words. */
export const EFFECTS = { pure: "Computes only", llm: "Asks a model", read: "Reads", workspace: "Changes files", exec: "Runs programs", net: "Uses the network", external: "Acts on the outside", human: "Asks a person" }

export const ENDED = new Set(["done", "failed", "cancelled"])

/** 0.042 → "42 ms", 3.21 → "3.2 s", 75 → "1 min 15 s", 7300 → "2 h 1 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return ""
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s")
  if (whole < 86400) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min")
  return pair(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h")
}

function pair(big, bigUnit, small, smallUnit) {
  return small ? `${big} ${bigUnit} ${small} ${smallUnit}` : `${big} ${bigUnit}`
}

/** "just now", "5 min ago", "3 h ago", "2 d ago". */
export function ago(iso, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1000)
  if (seconds < 10) return "just now"
  if (seconds < 60) return `${Math.floor(seconds)} s ago`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`
  return `${Math.floor(seconds / 86400)} d ago`
}

/** The moment itself, in the reader's own language and zone: "14:02:11" today, "3 Jun, 14:02" before. */
export function moment(iso) {
  const at = new Date(iso)
  if (Number.isNaN(at.valueOf())) return ""
  if (at.toDateString() === new Date().toDateString()) return at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })
  const year = at.getFullYear() === new Date().getFullYear() ? undefined : "numeric"
  return at.toLocaleString([], { year, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" })
}

export function count(number) {
  return Number(number).toLocaleString()
}

/** 7812 MB → "7.6 GB", 640 → "640 MB". */
export function memory(megabytes) {
  return megabytes < 1024 ? `${megabytes} MB` : `${(megabytes / 1024).toFixed(megabytes < 102400 ? 1 : 0)} GB`
}

/** 98362432 → "98 MB", 4_120_000_000 → "4.1 GB": in thousands, as disks and downloads are sold. */
export function bytes(number) {
  if (number < 1e6) return `${Math.ceil(number / 1e3)} kB`
  if (number < 1e9) return `${Math.round(number / 1e6)} MB`
  return `${(number / 1e9).toFixed(number < 1e11 ? 1 : 0)} GB`
}

/** {prompt: 812, completion: 96} → "812 in, 96 out"; nothing counted → "". */
export function tokens(used) {
  if (!used || (!used.prompt && !used.completion)) return ""
  return `${count(used.prompt ?? 0)} in, ${count(used.completion ?? 0)} out`
}

/** "reply/turn[1]/call[0]" below "reply" → "turn 1 › call 0". */
export function pathWords(path, below = "") {
  const rest = below && path.startsWith(`${below}/`) ? path.slice(below.length + 1) : path
  return rest.replaceAll(/\[(\d+)\]/g, " $1").replaceAll("/", " › ")
}
