using System.Diagnostics;
using System.Globalization;
using System.Text;

namespace BatchKit.Benchmarks.Children;

/// <summary>A process of its own that takes commands: a server, or the load that it serves. It ends with this one, because its standard input does.</summary>
internal sealed class ChildProcess : IDisposable
{
    private readonly string _name;
    private readonly Process _process;
    private readonly StringBuilder _errors = new();

    private ChildProcess(string name, ProcessStartInfo start)
    {
        _name = name;
        _process = Process.Start(start) ?? throw new InvalidOperationException($"'{name}' did not start.");
        _process.ErrorDataReceived += (_, line) =>
        {
            lock (_errors)
                _errors.AppendLine(line.Data);
        };
        _process.BeginErrorReadLine();
        AppDomain.CurrentDomain.ProcessExit += OnExit;
    }

    /// <summary>How long it may say nothing.</summary>
    public TimeSpan AnswerLimit { get; set; } = TimeSpan.FromSeconds(120);

    /// <summary>Starts this program again, to do one part.</summary>
    public static ChildProcess Start(params string[] arguments)
    {
        var start = new ProcessStartInfo(Environment.ProcessPath!);
        if (Path.GetFileNameWithoutExtension(start.FileName) == "dotnet")
            start.ArgumentList.Add(typeof(ChildProcess).Assembly.Location);
        return Start(start, arguments);
    }

    /// <summary>Starts another program.</summary>
    public static ChildProcess StartProgram(string path, params string[] arguments) => Start(new ProcessStartInfo(path), arguments);

    /// <summary>Waits for the next line of numbers.</summary>
    /// <param name="getProgress">Tells how far its work has come, from 0, where another process sees it: while that grows, the limit begins again. Null for none.</param>
    /// <exception cref="InvalidOperationException">The process ended, or said nothing for the limit.</exception>
    /// <exception cref="OperationCanceledException">This program was interrupted.</exception>
    public long[] Read(Func<long>? getProgress = null)
    {
        var answer = _process.StandardOutput.ReadLineAsync();
        for (var progress = 0L; ;)
        {
            try
            {
                if (answer.WaitAsync(AnswerLimit, Interruption.Token).GetAwaiter().GetResult() is { } line)
                    return [.. line.Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(word => long.Parse(word, CultureInfo.InvariantCulture))];
                _process.WaitForExit();
                throw new InvalidOperationException($"'{_name}' ended with {_process.ExitCode}. {Errors}");
            }
            catch (TimeoutException expired)
            {
                var before = progress;
                progress = getProgress?.Invoke() ?? 0;
                if (progress <= before)
                    throw new InvalidOperationException($"'{_name}' did not answer within {AnswerLimit.TotalSeconds} s. {Errors}", expired);
            }
        }
    }

    public void Write(string command)
    {
        _process.StandardInput.Write(command + "\n");
        _process.StandardInput.Flush();
    }

    /// <summary>Gives a command and waits for its answer.</summary>
    public long[] Ask(string command, Func<long>? getProgress = null)
    {
        Write(command);
        return Read(getProgress);
    }

    public void Dispose()
    {
        AppDomain.CurrentDomain.ProcessExit -= OnExit;
        try
        {
            _process.StandardInput.Close();
        }
        catch (IOException)
        {
            // It has ended already.
        }

        // One that is busy reads its standard input late.
        if (Interruption.ExitCode > 0 || !_process.WaitForExit(TimeSpan.FromSeconds(2)))
            _process.Kill();
        _process.WaitForExit();
        _process.Dispose();
    }

    private void OnExit(object? sender, EventArgs e) => _process.Kill();

    private static ChildProcess Start(ProcessStartInfo start, string[] arguments)
    {
        foreach (var argument in arguments)
            start.ArgumentList.Add(argument);
        (start.RedirectStandardInput, start.RedirectStandardOutput, start.RedirectStandardError) = (true, true, true);
        return new ChildProcess(string.Join(' ', [Path.GetFileName(start.FileName), .. arguments]), start);
    }

    private string Errors
    {
        get
        {
            lock (_errors)
                return _errors.ToString().Trim();
        }
    }
}
