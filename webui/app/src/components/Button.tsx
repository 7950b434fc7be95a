import type { ButtonHTMLAttributes } from "react";
import { useCan } from "../api/session";
import type { Role } from "../api/types";
import { Icon, type IconName } from "./Icon";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: "default" | "primary" | "danger" | "ghost";
  size?: "normal" | "small";
  icon?: IconName;
  /** Shows the icon alone; then `aria-label` says what it does. */
  iconOnly?: boolean;
  /** The role without which the button is disabled, with the reason as its tooltip. */
  needs?: Role;
  /** A command is under way. */
  busy?: boolean;
}

export function Button({
  variant = "default",
  size = "normal",
  icon,
  iconOnly = false,
  needs = "viewer",
  busy = false,
  disabled,
  className = "",
  title,
  children,
  type = "button",
  ...rest
}: ButtonProps) {
  const can = useCan(needs) || needs === "viewer";
  const classes = ["btn", `btn-${variant}`, size === "small" && "btn-small", iconOnly && "btn-icon", className];
  return (
    <button
      {...rest}
      type={type}
      className={classes.filter(Boolean).join(" ")}
      disabled={disabled || busy || !can}
      aria-busy={busy || undefined}
      title={can ? (title ?? (iconOnly ? rest["aria-label"] : undefined)) : `This needs the role ${needs}.`}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}
