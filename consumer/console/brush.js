// Lets a person drag over the bars of the page "Dead letters": the release leads to the letters of
// that stretch. A click leads where the bar's own link does, and Escape ends a drag.
"use strict";

const bars = document.querySelector(".bars");
const links = [...bars.querySelectorAll("a")];
// The places of the bars where the drag began and where it is; null while there is none.
let begin = null;
let end = null;
// A click follows the release of a drag; browsers differ whether it is one on the link.
let wasDragged = false;

function placeAt(x) {
  const found = links.findLastIndex((one) => one.querySelector(".slot").getBoundingClientRect().left <= x);
  return Math.max(found, 0);
}

function ends() {
  return [Math.min(begin, end), Math.max(begin, end)];
}

function mark() {
  const [first, last] = wasDragged && begin !== null ? ends() : [1, 0];
  links.forEach((one, place) => one.classList.toggle("chosen", place >= first && place <= last));
}

function forget() {
  begin = null;
  mark();
}

function address() {
  const [first, last] = ends().map((place) => new URL(links[place].getAttribute("href"), location.href));
  first.searchParams.set("until", last.searchParams.get("until"));
  return first.href;
}

bars.addEventListener("pointerdown", (event) => {
  if (event.isPrimary && event.button === 0 && links.length > 0) {
    begin = end = placeAt(event.clientX);
    wasDragged = false;
  }
});
bars.addEventListener("pointermove", (event) => {
  if (begin === null || !event.isPrimary) {
    return;
  }
  if (event.buttons === 0) {
    // Released beside the bars.
    forget();
    return;
  }
  end = placeAt(event.clientX);
  if (!wasDragged && end !== begin) {
    wasDragged = true;
    // Only now: a click would be one on the bars, and no more on the link.
    bars.setPointerCapture(event.pointerId);
  }
  mark();
});
bars.addEventListener("pointerup", (event) => {
  if (begin === null || !event.isPrimary) {
    return;
  }
  const where = wasDragged ? address() : null;
  forget();
  if (where !== null) {
    location.assign(where);
  }
});
bars.addEventListener("pointercancel", forget);
bars.addEventListener("click", (event) => {
  if (wasDragged) {
    event.preventDefault();
  }
});
// The browser's own dragging of a link.
bars.addEventListener("dragstart", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    forget();
  }
});
document.getElementById("brush-hint").hidden = false;
