using System.Globalization;
using System.Text.RegularExpressions;

namespace BatchKit.TestServers.Processes;

/// <summary>One of the samples, or a program of the tests, as a child process with just the arguments given. Dispose it: that kills what has not ended.</summary>
public abstract class SampleProcess : IDisposable
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private static readonly TimeSpan MatchLimit = TimeSpan.FromSeconds(1);

    private readonly string _name;
    private readonly ServerProcess _process;

    /// <summary>Starts it, and does not wait.</summary>
    /// <remarks>A shell without job control starts what runs in its background with Ctrl-C ignored, which children inherit and .NET respects: it is set back.</remarks>
    /// <param name="name">The program's name, which is its assembly's too.</param>
    /// <param name="arguments">Its arguments.</param>
    /// <param name="under">A command that starts it, such as <c>prlimit</c>; none when null.</param>
    private protected SampleProcess(string name, IEnumerable<string> arguments, IEnumerable<string>? under = null)
        : this(name, Environment.CurrentDirectory, BuiltProgram.PathOf(name), arguments, under)
    {
    }

    private protected SampleProcess(string name, string folder, string assembly, IEnumerable<string> arguments, IEnumerable<string>? under = null)
    {
        _name = name;
        string[] command = ["--default-signal=INT", $"--chdir={folder}", .. under ?? [], "dotnet", assembly];
        _process = ServerProcess.Start("env", [.. command, .. arguments], new Dictionary<string, string>(StringComparer.Ordinal));
    }

    /// <summary>Its number in the system.</summary>
    public int Id => _process.Id;

    /// <summary>What it has written, to either stream; the last quarter of a megabyte of it.</summary>
    public string Output => _process.Output;

    /// <summary>Asks it to end, as a service manager does (SIGTERM).</summary>
    public void Terminate() => Signal.Send(_process.Id, Signal.Terminate);

    /// <summary>Ends it at once, as a crash does (SIGKILL).</summary>
    public void Kill() => Signal.Send(_process.Id, Signal.Kill);

    /// <summary>Freezes it (SIGSTOP), as a stalled virtual machine is: its connections stay open.</summary>
    public void Freeze() => FrozenProcess.Freeze(_process.Id);

    /// <summary>Lets it go on after <see cref="Freeze"/> (SIGCONT).</summary>
    public void Thaw() => FrozenProcess.Thaw(_process.Id);

    /// <summary>Asks it to end, as Ctrl-C does (SIGINT).</summary>
    public void Interrupt() => Signal.Send(_process.Id, Signal.Interrupt);

    /// <summary>Waits until it has written a text.</summary>
    /// <exception cref="ServerStartException">It ended without, or took too long.</exception>
    public async Task WaitForOutputAsync(string text)
    {
        using var deadline = new CancellationTokenSource(Limit);
        while (!Output.Contains(text, StringComparison.Ordinal))
        {
            if (_process.HasExited && (await _process.ReadLastWordsAsync()).Contains(text, StringComparison.Ordinal))
                return;
            if (_process.HasExited || deadline.IsCancellationRequested)
                throw new ServerStartException($"{_name} did not write \"{text}\".{Environment.NewLine}{Output}");
            await Task.Delay(TimeSpan.FromMilliseconds(20));
        }
    }

    /// <summary>Waits until a process that was just started has written a text, and ends it when it does not.</summary>
    /// <exception cref="ServerStartException">It ended without, or took too long.</exception>
    protected static async Task<T> WhenUpAsync<T>(T process, string text)
        where T : SampleProcess
    {
        ArgumentNullException.ThrowIfNull(process);
        try
        {
            await process.WaitForOutputAsync(text);
            return process;
        }
        catch
        {
            process.Dispose();
            throw;
        }
    }

    /// <summary>Waits until it has ended, and returns its exit code.</summary>
    /// <param name="limit">How long it may take; a minute when null.</param>
    /// <exception cref="TimeoutException">It goes on.</exception>
    public async Task<int> WaitForExitAsync(TimeSpan? limit = null) => await _process.WaitForExitAsync(limit ?? Limit)
        ? _process.ExitCode
        : throw new TimeoutException($"{_name} did not end within {limit ?? Limit}.{Environment.NewLine}{Output}");

    /// <summary>Reads a count from what it said at its end, a line with a name and a number, such as <c>completed 7</c>.</summary>
    /// <exception cref="FormatException">It has not ended in good order.</exception>
    public long ReadCount(string name)
    {
        var line = Regex.Match(Output, $"^{name} (?<count>[0-9]+)$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, MatchLimit);
        return line.Success
            ? long.Parse(line.Groups["count"].Value, CultureInfo.InvariantCulture)
            : throw new FormatException($"{_name} did not say \"{name}\".{Environment.NewLine}{Output}");
    }

    /// <inheritdoc/>
    public void Dispose()
    {
        _process.Dispose();
        GC.SuppressFinalize(this);
    }
}
