namespace MudServer.Tests.Game;

public sealed class LocalPlayingTests() : PlayingTests("--transport", "local");
