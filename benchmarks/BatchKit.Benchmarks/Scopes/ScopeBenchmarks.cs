using System.Text;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>What does a write, and a scope around it, cost beside the least that could do it: a locked append of the same 20 bytes?</summary>
[MemoryDiagnoser]
public class ScopeBenchmarks
{
    private const int Operations = 16_000;
    private const int Keys = 100;

    private static readonly string Owner = "Gandalf";

    // Not static: the compiler would know its length, and copy it without a loop where it inlines the append.
    private readonly byte[] _payload = "a line of 20 bytes\r\n"u8.ToArray();

    private OutputBuffer _output = null!;
    private OutputHandle[] _handles = [];
    private LockedArray[] _arrays = [];
    private BufferingScope[] _scopes = [];
    private Crew _crew = null!;
    private int _held;

    [Params(1, 8)]
    public int Threads { get; set; }

    [Params(1, 10_000)]
    public int Handles { get; set; }

    [Params(HandleKind.Number, HandleKind.Name)]
    public HandleKind Kind { get; set; }

    [GlobalSetup(Targets = [nameof(LockedAppend), nameof(UnscopedWrite), nameof(UnscopedLatest), nameof(OpenAndClose), nameof(OpenWriteAndClose), nameof(WriterWrite), nameof(BeginWriteAndDispose),
        nameof(AmbientOpenAndClose), nameof(AmbientOpenWriteAndClose)])]
    public void Start()
    {
        // 100 messages a batch bound what 10,000 open handles hold to some 40 MB; 1,000 are a scope's of the size that @dolist has.
        var options = new OutputBufferOptions
        {
            MaxBatchMessages = Handles == 1 ? 1000 : 100,
            MaxBufferedBytes = 1L << 30,
            MaxScopeAge = TimeSpan.FromDays(1),
        };
        _output = new OutputBuffer(new CompletedTransport(), options);
        _handles = [.. Enumerable.Range(1, Handles).Select(MakeHandle)];
        _arrays = [.. _handles.Select(_ => new LockedArray())];
        _crew = new Crew(Threads);
    }

    [GlobalSetup(Targets = [nameof(WriteInScope), nameof(LatestInScope), nameof(InterpolatedWriteInScope), nameof(StringWriteInScope)])]
    public void StartWithScopes()
    {
        Start();
        _scopes = [.. _handles.Select(handle => _output.BeginBufferingScope(handle))];
    }

    [GlobalCleanup]
    public void Stop()
    {
        foreach (var scope in _scopes)
            scope.Dispose();
        _crew.Dispose();
        _output.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }

    [Benchmark(Baseline = true, OperationsPerInvoke = Operations)]
    public void LockedAppend() => _crew.Run(AppendShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void WriteInScope()
    {
        _crew.Run(WriteShare);
        CloseFullScopes();
    }

    [Benchmark(OperationsPerInvoke = Operations)]
    public void WriterWrite() => _crew.Run(WriterShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void BeginWriteAndDispose() => _crew.Run(BeginWriteAndDisposeShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void LatestInScope() => _crew.Run(LatestShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void UnscopedLatest() => _crew.Run(LatestShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void UnscopedWrite() => _crew.Run(WriteShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void OpenAndClose() => _crew.Run(OpenAndCloseShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void OpenWriteAndClose() => _crew.Run(OpenWriteAndCloseShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void AmbientOpenAndClose() => _crew.Run(AmbientOpenAndCloseShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void AmbientOpenWriteAndClose() => _crew.Run(AmbientOpenWriteAndCloseShare);

    [Benchmark(OperationsPerInvoke = Operations)]
    public void StringWriteInScope()
    {
        _crew.Run(StringWriteShare);
        CloseFullScopes();
    }

    [Benchmark(OperationsPerInvoke = Operations)]
    public void InterpolatedWriteInScope()
    {
        _crew.Run(InterpolatedWriteShare);
        CloseFullScopes();
    }

    // A scope holds all that is written in it, so that it must end now and then: at 16,000 messages, or at 100 for each of many handles.
    private void CloseFullScopes()
    {
        _held += Operations;
        if (_held < 100 * Handles)
            return;
        _held = 0;
        for (var index = 0; index < _scopes.Length; index++)
        {
            _scopes[index].Dispose();
            _scopes[index] = _output.BeginBufferingScope(_handles[index]);
        }
    }

    private OutputHandle MakeHandle(int number) =>
        Kind == HandleKind.Number ? OutputHandle.Connection(number) : OutputHandle.Named($"room/{number}");

    private void AppendShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            _arrays[index].Append(_payload);
            index = Next(index);
        }
    }

    private void WriteShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            _output.Write(_handles[index], _payload);
            index = Next(index);
        }
    }

    // A thousand messages a writer: a loop of the size that @dolist has.
    private void WriterShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; index = Next(index))
        {
            using var lines = _output.BeginWriting(_handles[index]);
            for (var end = Math.Max(0, left - 1000); left > end; left--)
                lines.Write(_payload);
        }
    }

    private void BeginWriteAndDisposeShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            using var lines = _output.BeginWriting(_handles[index]);
            lines.Write(_payload);
            index = Next(index);
        }
    }

    private void LatestShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            _output.WriteLatest(_handles[index], left % Keys, _payload);
            index = Next(index);
        }
    }

    private void OpenAndCloseShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            using (_output.BeginBufferingScope(_handles[index]))
                index = Next(index);
        }
    }

    private void OpenWriteAndCloseShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            using (_output.BeginBufferingScope(_handles[index]))
                _output.Write(_handles[index], _payload);
            index = Next(index);
        }
    }

    private void AmbientOpenAndCloseShare(int worker)
    {
        for (var (left, _) = Share(worker); left > 0; left--)
            _output.BeginBufferingScope().Dispose();
    }

    private void AmbientOpenWriteAndCloseShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            using (_output.BeginBufferingScope())
                _output.Write(_handles[index], _payload);
            index = Next(index);
        }
    }

    private void StringWriteShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            _output.Write(_handles[index], Encoding.UTF8.GetBytes($"{Owner} has {left} coins\r\n"));
            index = Next(index);
        }
    }

    private void InterpolatedWriteShare(int worker)
    {
        for (var (left, index) = Share(worker); left > 0; left--)
        {
            _output.Write(_handles[index], $"{Owner} has {left} coins\r\n");
            index = Next(index);
        }
    }

    private (int Operations, int FirstIndex) Share(int worker) => (Operations / Threads, worker * Handles / Threads);

    private int Next(int index) => index + 1 == _handles.Length ? 0 : index + 1;
}
