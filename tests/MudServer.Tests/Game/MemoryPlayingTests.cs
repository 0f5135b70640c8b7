namespace MudServer.Tests.Game;

public sealed class MemoryPlayingTests() : PlayingTests("memory");
