using System.IO.MemoryMappedFiles;

namespace BatchKit.Chaos.Nodes;

/// <summary>A few bytes that the test writes and a running process reads at once: how far its wall clock is off, and whether it writes.</summary>
internal sealed class NodeControl : IDisposable
{
    private const int ClockOffset = 0;
    private const int Paused = 8;
    private const int Bytes = 16;

    private readonly MemoryMappedFile _file;
    private readonly MemoryMappedViewAccessor _view;

    private NodeControl(MemoryMappedFile file)
    {
        _file = file;
        _view = file.CreateViewAccessor(0, Bytes);
    }

    /// <summary>How far the wall clock is off.</summary>
    public TimeSpan Clock
    {
        get => new(_view.ReadInt64(ClockOffset));
        set => _view.Write(ClockOffset, value.Ticks);
    }

    /// <summary>Whether the process writes no more.</summary>
    public bool IsPaused
    {
        get => _view.ReadBoolean(Paused);
        set => _view.Write(Paused, value);
    }

    public static NodeControl Open(string path)
    {
        using var file = new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.ReadWrite);
        file.SetLength(Bytes);
        return new NodeControl(MemoryMappedFile.CreateFromFile(path, FileMode.Open, mapName: null, Bytes));
    }

    public void Dispose()
    {
        _view.Dispose();
        _file.Dispose();
    }
}

/// <summary>The system's time, but for a wall clock that jumps.</summary>
internal sealed class JumpingClock(NodeControl control) : TimeProvider
{
    public override DateTimeOffset GetUtcNow() => base.GetUtcNow() + control.Clock;
}
