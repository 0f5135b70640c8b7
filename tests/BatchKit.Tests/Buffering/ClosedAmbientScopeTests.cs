using System.Runtime.CompilerServices;
using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>What was started inside an ambient scope keeps the scope's context for as long as it lives, and nothing that the scope covered.</summary>
[Collection(nameof(MeasuresMemory))]
public sealed class ClosedAmbientScopeTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly List<ExecutionContext> _contexts = [];

    [Theory]
    [InlineData(1, false)]
    [InlineData(3, false)]
    [InlineData(1, true)]
    [InlineData(3, true)]
    public async Task A_context_that_outlives_its_closed_scope_keeps_no_handle(int handles, bool awaits)
    {
        var payloads = await WriteAsync(handles, awaits);

        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();

        Assert.All(payloads, static scope => Assert.False(scope.IsAlive));
        Assert.NotEmpty(_contexts);
    }

    [Fact]
    public async Task A_closed_scope_is_closed_however_often_and_takes_no_handle_again()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: new ManualTimeProvider());
        var outer = buffer.BeginBufferingScope();
        var nested = buffer.BeginBufferingScope();
        buffer.Write(Some.Connection(), "line 0");
        buffer.Write(Some.Connection(), "line 1");
        nested.Dispose();
        await outer.DisposeAsync();

        nested.Dispose();
        outer.Dispose();
        await nested.DisposeAsync();
        buffer.Write(Some.Connection(), "line 2");

        Assert.Equal(Some.Lines(3), _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().OpenScopes);
    }

    // The buffers go out of use here, and only the contexts could keep their handles.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private async Task<WeakReference[]> WriteAsync(int handles, bool awaits)
    {
        var watched = new List<WeakReference>();
        await using var buffer = new OutputBuffer(new Support.CountingTransport(), timeProvider: new ManualTimeProvider());
        var scope = buffer.BeginBufferingScope();
        for (var handle = 0; handle < handles; handle++)
        {
            var own = buffer.BeginBufferingScope(Some.Connection());
            watched.Add(new WeakReference(own.Handle));
            buffer.Write(own.Handle!.Handle, "line");
            own.Dispose();
        }

        _contexts.Add(ExecutionContext.Capture()!);
        if (awaits)
            await scope.DisposeAsync();
        else
            scope.Dispose();

        // A thread keeps the last handle that it wrote to.
        buffer.Write(Some.Connection(), "after");
        return [.. watched];
    }
}
