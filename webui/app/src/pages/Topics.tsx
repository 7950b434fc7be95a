import { PageFrame } from "../components";

export default function Topics() {
  return <PageFrame title="Topics">.</PageFrame>;
}
