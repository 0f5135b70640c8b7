using System.Diagnostics;
using System.Text;
using System.Text.RegularExpressions;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mud;

/// <summary>A program in a pseudo-terminal, as a person uses it: types lines and reads the screen. Dispose it: that kills it.</summary>
public sealed partial class TerminalProgram : IDisposable
{
    // Of util-linux: makes the pseudo-terminal.
    private const string Script = "script";

    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(1);

    private readonly Process _process;
    private readonly byte[] _bytes = new byte[64 * 1024];
    private string _waiting = string.Empty;

    private TerminalProgram(Process process) => _process = process;

    /// <summary>Why a program cannot be run here; null when it can.</summary>
    /// <param name="program">Its name.</param>
    /// <param name="package">Debian's package that has it.</param>
    public static string? WhyMissing(string program, string package) =>
        InstalledProgram.Find(Script) is null ? $"The program {Script} is not installed (apt-get install bsdutils)."
        : InstalledProgram.Find(program) is null ? $"The program {program} is not installed (apt-get install {package})."
        : null;

    /// <summary>Starts a program on a screen of 100 by 40.</summary>
    /// <param name="program">Its name.</param>
    /// <param name="arguments">As a shell reads them.</param>
    public static TerminalProgram Start(string program, string arguments)
    {
        var command = $"stty cols 100 rows 40; exec '{InstalledProgram.Find(program)}' {arguments}";
        var start = new ProcessStartInfo(InstalledProgram.Find(Script)!)
        {
            ArgumentList = { "--quiet", "--flush", "--return", "--command", command, "/dev/null" },
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            UseShellExecute = false,
        };
        start.Environment["TERM"] = "xterm";
        start.Environment["SHELL"] = "/bin/sh";
        return new TerminalProgram(Process.Start(start)!);
    }

    /// <summary>Types a line and presses Enter.</summary>
    public async Task TypeAsync(string line)
    {
        await _process.StandardInput.WriteAsync($"{line}\r");
        await _process.StandardInput.FlushAsync();
    }

    /// <summary>Reads until the text is on the screen, and returns what came before it, without colours and cursor movements.</summary>
    public async Task<string> ReadPastAsync(string text)
    {
        int end;
        while ((end = _waiting.IndexOf(text, StringComparison.Ordinal)) < 0)
        {
            var count = await _process.StandardOutput.BaseStream.ReadAsync(_bytes).AsTask().WaitAsync(Limit);
            if (count == 0)
                throw new EndOfStreamException($"The program ended after: {_waiting}");
            _waiting = ControlSequence.Replace(_waiting + Encoding.Latin1.GetString(_bytes, 0, count), string.Empty);
        }

        var before = _waiting[..end];
        _waiting = _waiting[(end + text.Length)..];
        return before;
    }

    /// <inheritdoc/>
    public void Dispose()
    {
        if (!_process.HasExited)
            _process.Kill(entireProcessTree: true);
        _process.Dispose();
    }

    [GeneratedRegex(@"\x1b(\[[0-9;?>]*[ -/]*[@-~]|\][^\x07]*\x07|[=>78])", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex ControlSequence { get; }
}
