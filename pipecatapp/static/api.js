// The one place that fetches. Errors come as ApiError with a sentence for people; a lost session is told to the app.

export class ApiError extends Error {
  /** `details` is what the answer says beside the error. */
  constructor(message, { status = 0, type = "", code = "", details = {} } = {}) {
    super(message)
    Object.assign(this, { status, type, code, details })
  }
}

export const get = async (path, options) => (await call("GET", path, options)).json()
export const post = async (path, body, options) => (await call("POST", path, { ...options, body })).json()

export const put = async (path, body, options) => (await call("PUT", path, { ...options, body })).json()

export const patch = async (path, body, options) => (await call("PATCH", path, { ...options, body })).json()

/** A text; with `body` the question is posted. */
export const getText = async (path, body) => (await call(body === undefined ? "GET" : "POST", path, { body })).text()

export const remove = async (path, options) => void (await call("DELETE", path, options))

/** The same for a DELETE that is answered with JSON. */
export const removed = async (path) => (await call("DELETE", path, {})).json()

/** Posts bytes, such as a recording; the response. */
export const postBytes = (path, bytes) => call("POST", path, { bytes })

/** The response to a posted question, whose body is read while it comes. */
export const postForStream = (path, body, { signal } = {}) => call("POST", path, { body, signal })

export async function signIn(key) {
  await call("POST", "/api/session", { body: { key }, asking: true })
  localStorage.setItem("hearth.signed-in", "yes")
}

export async function signOut() {
  localStorage.removeItem("hearth.signed-in")
  await call("DELETE", "/api/session", { asking: true })
}

/** Whether this browser signed in before; the server has the last word with every answer. */
export const signedIn = () => localStorage.getItem("hearth.signed-in") === "yes"

/** `seen` is the ETag of the version that a change is meant for. */
async function call(method, path, { body, bytes, signal, seen, asking = false } = {}) {
  const headers = { ...(body !== undefined && { "content-type": "application/json" }), ...(seen && { "if-match": seen }) }
  let response
  try {
    response = await fetch(path, { method, headers, body: bytes ?? (body && JSON.stringify(body)), cache: "no-store", signal })
  } catch {
    throw new ApiError("Hearth cannot be reached. Is it still running?")
  }
  if (response.ok) return response
  if (response.status === 401 && !asking) sessionLost()
  throw await refusal(response)
}

export function sessionLost() {
  localStorage.removeItem("hearth.signed-in")
  window.dispatchEvent(new Event("session-lost"))
}

async function refusal(response) {
  const text = await response.text()
  try {
    const { error, ...details } = JSON.parse(text)
    return new ApiError(error.message, { status: response.status, type: error.type, code: error.code, details })
  } catch {
    return new ApiError(`Hearth answered ${response.status} ${response.statusText}`.trim(), { status: response.status })
  }
}
