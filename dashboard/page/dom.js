// Elements. Texts of runs only ever become text: nothing here, or elsewhere, makes markup of a string.
export function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    if (properties.class)
        made.className = properties.class;
    if (properties.title)
        made.title = properties.title;
    for (const [key, value] of Object.entries(properties.attributes ?? {}))
        made.setAttribute(key, value);
    for (const [event, handler] of Object.entries(properties.on ?? {}))
        made.addEventListener(event, handler);
    add(made, ...children);
    return made;
}
export function add(parent, ...children) {
    for (const child of children) {
        if (child === null || child === undefined || child === false)
            continue;
        parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
    }
}
export function replace(parent, ...children) {
    parent.replaceChildren();
    add(parent, ...children);
}
// The value of a colour or size of page.css.
export function style(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
