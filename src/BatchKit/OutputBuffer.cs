using System.Diagnostics.Metrics;
using System.Runtime.CompilerServices;
using BatchKit.Dispatch;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit;

/// <summary>The output buffer: see <see cref="IOutputBuffer"/>.</summary>
public sealed class OutputBuffer : IOutputBuffer, IAsyncDisposable
{
    /// <summary>Makes a buffer with one way out.</summary>
    public OutputBuffer(IBatchTransport transport, OutputBufferOptions? options = null, string name = "", TimeProvider? timeProvider = null,
        ILogger<OutputBuffer>? logger = null, IMeterFactory? meterFactory = null)
        : this([new OutputRoute("default", transport)], router: null, options, name, timeProvider, logger, meterFactory)
    {
    }

    /// <summary>Makes a buffer with several ways out.</summary>
    public OutputBuffer(IReadOnlyList<OutputRoute> routes, IOutputRouter? router = null, OutputBufferOptions? options = null, string name = "",
        TimeProvider? timeProvider = null, ILogger<OutputBuffer>? logger = null, IMeterFactory? meterFactory = null)
        : this(routes, router, options ?? new OutputBufferOptions(), name, timeProvider ?? TimeProvider.System, logger, meterFactory, ThreadPoolDispatchScheduler.Shared)
    {
    }

    internal OutputBuffer(IReadOnlyList<OutputRoute> routes, IOutputRouter? router, OutputBufferOptions options, string name,
        TimeProvider timeProvider, ILogger<OutputBuffer>? logger, IMeterFactory? meterFactory, IDispatchScheduler scheduler)
    {
        throw new NotSupportedException();
    }

    /// <summary>The buffer's name, which its metrics carry.</summary>
    public string Name => throw new NotSupportedException();

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope(OutputHandle handle, [CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0) => throw new NotSupportedException();

    /// <inheritdoc/>
    public BufferingScope BeginBufferingScope([CallerFilePath] string openerFile = "", [CallerLineNumber] int openerLine = 0) => throw new NotSupportedException();

    /// <inheritdoc/>
    public bool EndBufferingScope(OutputHandle handle) => throw new NotSupportedException();

    /// <inheritdoc/>
    public bool TryWrite(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) => throw new NotSupportedException();

    /// <inheritdoc/>
    public void Write(OutputHandle handle, ReadOnlySpan<byte> payload, MessageHeader? header = null) => throw new NotSupportedException();

    /// <inheritdoc/>
    public ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header = null, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <inheritdoc/>
    public ValueTask FlushAsync(OutputHandle handle, CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <inheritdoc/>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default) => throw new NotSupportedException();

    /// <inheritdoc/>
    public OutputStatistics GetStatistics() => throw new NotSupportedException();

    /// <summary>How the buffer is, with reasons.</summary>
    public OutputHealth GetHealth() => throw new NotSupportedException();

    /// <summary>Takes no more writes, seals and sends what is pending, within <see cref="OutputBufferOptions.DrainTimeout"/> or until the token is cancelled.</summary>
    public Task StopAsync(CancellationToken cancellationToken) => throw new NotSupportedException();

    /// <summary>Stops, and waits for everything that the buffer started.</summary>
    public ValueTask DisposeAsync() => throw new NotSupportedException();
}
