# Formula for a tap. It builds from the source of a release; the release workflow sets the address and the checksum.
class Annals < Formula
  desc "Find, read, write and keep the conversations of AI coding agents"
  homepage "https://github.com/annals-dev/annals"
  license any_of: ["MIT", "Apache-2.0"]
  head "https://github.com/annals-dev/annals.git", branch: "main"

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/annals-cli")
    generate_completions_from_executable(bin/"annals", "completions", shells: [:bash, :zsh, :fish])
    mkdir "man"
    system bin/"annals", "man", "man"
    man1.install Dir["man/*.1"]
  end

  service do
    run [opt_bin/"annals", "keep", "-q"]
    run_type :interval
    interval 3600
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/annals --version") unless build.head?
    system bin/"annals", "demo", "--keep", testpath/"sample"
    assert_match "Flaky upload test", shell_output("#{bin}/annals sessions --root #{testpath}/sample")
  end
end
