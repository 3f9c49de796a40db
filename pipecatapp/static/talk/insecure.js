import { h } from "../dom.js"
import { icon } from "../icons.js"

/** Why this page has no microphone, and the ways to one. `authority` is the address of the house's own certificate, or null. */
export function insecure(authority) {
  const port = location.port || "80"
  const tunnel = `ssh -L ${port}:127.0.0.1:${port} ${location.hostname}`
  const ways = [
    h("li", {}, "On the machine itself, open ", h("code", {}, `http://127.0.0.1:${port}`), "."),
    h("li", {}, "From here, make a tunnel with ", h("code", {}, tunnel), " and then open that same address."),
    authority ? h("li", {}, "Let this device ", h("a", { href: authority }, "trust the certificate of this house"), ", then open this page by ", h("code", {}, "https"), ".") : h("li", {}, "A cluster serves this page by ", h("code", {}, "https"), "; the guide to talking says how to trust its certificate."),
  ]
  return h("div", { class: "notice", role: "alert", testid: "talk-insecure" }, icon("warning"), h("div", { class: "notice-words" }, h("strong", {}, "No microphone for a page that comes in clear"), h("p", {}, "Browsers give a microphone only to pages that nobody on the way can change. You can type here, or:"), h("ul", {}, ways)))
}
