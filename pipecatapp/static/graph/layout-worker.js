// Lays out one big graph beside the page, which stays quick meanwhile.
import { layout } from "./layout.js"

onmessage = ({ data }) => postMessage(layout(data))
