using System.Diagnostics;
using System.Text;

namespace BatchKit.TestServers.Processes;

/// <summary>A child process whose output is kept, for tests and error messages, and that ends with this one.</summary>
internal sealed class ServerProcess : IDisposable
{
    // A test looks for a line every now and then: what is logged behind it, stack traces among it, must not push it out meanwhile.
    private const int MaxOutputCharacters = 256 * 1024;
    private const string NewGroup = "/usr/bin/setsid";

    // A parent that is killed with -9 runs no code of its own, but its end of the pipe closes: then all that was started goes too.
    // The shell becomes the program, so that signals reach it and its exit code comes back; the watcher keeps none of its streams open.
    private const string EndsWithItsParent = "exec 3<&0; { cat <&3; kill -9 0; } >/dev/null 2>&1 & exec \"$@\" </dev/null 3<&-";

    private static readonly TimeSpan LastWordsLimit = TimeSpan.FromSeconds(10);

    private readonly Process _process;
    private readonly StringBuilder _output = new();

    private ServerProcess(Process process)
    {
        _process = process;
        process.OutputDataReceived += (_, line) => Keep(line.Data);
        process.ErrorDataReceived += (_, line) => Keep(line.Data);
        AppDomain.CurrentDomain.ProcessExit += OnExit;
    }

    public int Id => _process.Id;

    public bool HasExited => _process.HasExited;

    public int ExitCode => _process.ExitCode;

    /// <summary>What it wrote, the last quarter of a megabyte of it.</summary>
    public string Output
    {
        get
        {
            lock (_output)
                return _output.ToString();
        }
    }

    public static ServerProcess Start(string fileName, IEnumerable<string> arguments, IReadOnlyDictionary<string, string> environment)
    {
        var isGuarded = File.Exists(NewGroup);
        var start = new ProcessStartInfo(isGuarded ? NewGroup : fileName)
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            RedirectStandardInput = true,
            UseShellExecute = false,
        };
        string[] guard = isGuarded ? ["/bin/sh", "-c", EndsWithItsParent, "sh", fileName] : [];
        foreach (var argument in guard.Concat(arguments))
            start.ArgumentList.Add(argument);
        foreach (var (name, value) in environment)
            start.Environment[name] = value;
        var process = new ServerProcess(new Process { StartInfo = start });
        process._process.Start();
        process._process.BeginOutputReadLine();
        process._process.BeginErrorReadLine();
        return process;
    }

    public async Task<bool> WaitForExitAsync(TimeSpan limit)
    {
        using var deadline = new CancellationTokenSource(limit);
        try
        {
            await _process.WaitForExitAsync(deadline.Token);
            return true;
        }
        catch (OperationCanceledException) when (deadline.IsCancellationRequested)
        {
            return false;
        }
    }

    /// <summary>The output of a process that has exited, which may be on its way still. Not for ever: a child of its may keep the pipe open.</summary>
    public async Task<string> ReadLastWordsAsync()
    {
        await WaitForExitAsync(LastWordsLimit);
        return Output;
    }

    public void Dispose()
    {
        AppDomain.CurrentDomain.ProcessExit -= OnExit;
        KillTree();
        _process.Dispose();
    }

    private void OnExit(object? sender, EventArgs e) => KillTree();

    private void KillTree()
    {
        if (!_process.HasExited)
            _process.Kill(entireProcessTree: true);
    }

    private void Keep(string? line)
    {
        if (line is null)
            return;
        lock (_output)
        {
            _output.AppendLine(line);
            if (_output.Length > MaxOutputCharacters)
                _output.Remove(0, _output.Length - MaxOutputCharacters);
        }
    }
}
