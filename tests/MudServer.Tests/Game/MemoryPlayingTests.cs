namespace MudServer.Tests.Game;

public sealed class MemoryPlayingTests() : PlayingTests("--transport", "memory", "--confirm", "0");
